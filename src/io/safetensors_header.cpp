#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/check.h"

namespace coda {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the reference implementation

struct DTypeRow {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<DType> dtype;
};
constexpr std::array<DTypeRow, 17> kDTypes = {{
    {"F64", 8, DType::F64},
    {"F32", 4, DType::F32},
    {"BF16", 2, DType::BF16},
    {"F16", 2, DType::F16},
    {"I32", 4, DType::I32},
    {"I64", 8, DType::I64},
    {"BOOL", 1, {}},
    {"U8", 1, {}},
    {"I8", 1, {}},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},
    {"I16", 2, {}},
    {"U16", 2, {}},
    {"U32", 4, {}},
    {"U64", 8, {}},
    {"C64", 8, {}},
}};

struct Magic {
  std::string_view bytes;
  std::string_view what;
};
constexpr std::array<Magic, 9> kForeign = {{
    {"PK\x03\x04", "a zip archive, as torch.save writes: save the weights with safetensors"},
    {"\x80\x02", "a pickle, as old torch.save writes: save the weights with safetensors"},
    {"GGUF", "a GGUF file: load it with transformers (gguf_file=) and save it with save_pretrained"},
    {"<!DOCTYPE", "an HTML page: the download failed, repeat it"},
    {"<html", "an HTML page: the download failed, repeat it"},
    {"version https://git-lfs", "a Git LFS pointer: run git lfs pull"},
    {"\x89HDF", "an HDF5 file: save the weights with safetensors"},
    {"\x1f\x8b", "a gzip archive: unpack it first"},
    {"{", "JSON text without the 8 bytes of length before it"},
}};

/// Raises for content that is no safetensors file by its first bytes.
void refuse_foreign(const std::string& path, std::string_view start) {
  for (const Magic& magic : kForeign)
    REQUIRE(ValueError, !start.starts_with(magic.bytes), "safetensors: file '", path, "' looks like ", magic.what);
}

std::uint64_t header_length(const std::string& path, std::span<const unsigned char> file) {
  refuse_foreign(path, {reinterpret_cast<const char*>(file.data()), std::min<std::size_t>(file.size(), 64)});
  REQUIRE(ValueError, file.size() >= kLengthBytes, "safetensors: file '", path, "' has ", file.size(),
          " bytes, expected at least 8: it is empty or cut short, download it again");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::uint64_t{file[i]} << (8 * i);
  REQUIRE(ValueError, length <= kLongestHeader, "safetensors: file '", path, "' announces a header of ", length,
          " bytes, expected at most ", kLongestHeader, ": it is no safetensors file");
  REQUIRE(ValueError, length <= file.size() - kLengthBytes, "safetensors: file '", path, "' has ", file.size(),
          " bytes, expected ", length + kLengthBytes, " for its header alone: it is cut short, download it again");
  return length;
}

/// The header as JSON, with no key twice in one object (nlohmann would keep the last).
json parse_json(const std::string& path, std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto refuse_twice = [&](int depth, json::parse_event_t event, json& value) {
    const auto level = static_cast<std::size_t>(depth);
    if (event == json::parse_event_t::object_start) {
      keys.resize(std::max(keys.size(), level + 2));
      keys[level + 1].clear();
    } else if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      REQUIRE(ValueError, keys[level].insert(key).second, "safetensors: file '", path, "' has '", key,
              "' twice in its header, expected each name once");
    }
    return true;
  };
  try {
    json header = json::parse(text.begin(), text.end(), refuse_twice);
    REQUIRE(ValueError, header.is_object(), "safetensors: file '", path,
            "' has a header that is no JSON object, expected {\"name\": {...}}");
    return header;
  } catch (const json::exception& error) {
    throw ValueError(concat("safetensors: file '", path, "' has a header that is no JSON (", error.what(),
                            "): it is damaged or no safetensors file"));
  }
}

/// A member of a tensor's entry that must be an array of non-negative integers.
std::vector<std::int64_t> integers(const std::string& where, const json& entry, const char* field) {
  const auto found = entry.find(field);
  REQUIRE(ValueError, found != entry.end() && found->is_array(), where, " without an array '", field, "'");
  std::vector<std::int64_t> values;
  for (const json& value : *found) {
    REQUIRE(ValueError,
            value.is_number_unsigned() &&
                value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()},
            where, " whose '", field, "' holds ", value.dump(), ", expected integers from 0 up");
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

/// Bytes of a tensor, or nothing when they exceed 64 bits.
std::optional<std::uint64_t> byte_count(std::span<const std::int64_t> shape, std::uint64_t element) {
  std::uint64_t bytes = element;
  for (const std::int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return {};
  return bytes;
}

SafetensorsFile::Entry parse_entry(const std::string& path, const std::string& name, const json& value) {
  const std::string where = concat("safetensors: file '", path, "' describes tensor '", name, "'");
  REQUIRE(ValueError, value.is_object(), where, " by ", value.type_name(), ", expected an object");
  const auto dtype = value.find("dtype");
  REQUIRE(ValueError, dtype != value.end() && dtype->is_string(), where, " without a text 'dtype'");
  const std::vector<std::int64_t> offsets = integers(where, value, "data_offsets");
  REQUIRE(ValueError, offsets.size() == 2 && offsets[0] <= offsets[1], where, " with data_offsets ",
          shape_text(offsets), ", expected [begin, end]");

  SafetensorsFile::Entry entry;
  entry.name = name;
  entry.dtype_name = dtype->get<std::string>();
  entry.shape = integers(where, value, "shape");
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  const auto* row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                 [&](const DTypeRow& known) { return known.name == entry.dtype_name; });
  if (row == kDTypes.end()) return entry;
  entry.dtype = row->dtype;
  const std::optional<std::uint64_t> bytes = byte_count(entry.shape, row->bytes);
  REQUIRE(ValueError, bytes == entry.end - entry.begin, where, " of shape ", shape_text(entry.shape), " and dtype ",
          entry.dtype_name, " with ", entry.end - entry.begin, " bytes, expected ",
          bytes ? std::to_string(*bytes) : "more than 2^64", ": the header is damaged");
  return entry;
}

void require_metadata(const std::string& path, const json& value) {
  const auto is_text = [](const json& item) { return item.is_string(); };
  REQUIRE(ValueError, value.is_object() && std::all_of(value.begin(), value.end(), is_text), "safetensors: file '",
          path, "' has a __metadata__ that is no object of texts");
}

/// Data must follow without gap or overlap and fill the file exactly.
void require_layout(const std::string& path, std::span<const SafetensorsFile::Entry> entries, std::uint64_t size) {
  std::uint64_t position = 0;
  for (const SafetensorsFile::Entry& entry : entries) {
    REQUIRE(ValueError, entry.end <= size, "safetensors: file '", path, "' has ", size, " bytes of data, but tensor '",
            entry.name, "' ends at byte ", entry.end, ": the file is cut short, download it again");
    REQUIRE(ValueError, entry.begin == position, "safetensors: file '", path, "' has tensor '", entry.name,
            "' at byte ", entry.begin, " of the data, expected ", position, ": ",
            entry.begin < position ? "it overlaps the one before" : "bytes before it belong to no tensor");
    position = entry.end;
  }
  REQUIRE(ValueError, position == size, "safetensors: file '", path, "' has ", size, " bytes of data, expected ",
          position, ": bytes at its end belong to no tensor");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::string& path, std::span<const unsigned char> file) {
  const std::uint64_t length = header_length(path, file);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              static_cast<std::size_t>(length));
  const json document = parse_json(path, text);
  SafetensorsHeader header;
  header.data_start = kLengthBytes + length;
  for (const auto& [name, value] : document.items()) {
    if (name == "__metadata__")
      require_metadata(path, value);
    else
      header.entries.push_back(parse_entry(path, name, value));
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  require_layout(path, header.entries, file.size() - header.data_start);
  return header;
}

}  // namespace coda
