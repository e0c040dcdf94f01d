#include "coda/safetensors.h"

#include <cstring>
#include <unordered_map>

#include "core/check.h"
#include "io/mapped_file.h"
#include "io/safetensors_header.h"

namespace coda {

struct SafetensorsFile::State {
  explicit State(const std::string& file_path)
      : path(file_path), file(file_path), header(parse_safetensors_header(path, {file.data(), file.size()})) {
    for (std::size_t i = 0; i < header.entries.size(); ++i) {
      const Entry& entry = header.entries[i];
      position.emplace(entry.name, i);
      if (entry.dtype) views.emplace(entry.name, make_view(entry));
    }
  }

  TensorView make_view(const Entry& entry) {
    REQUIRE(ValueError, entry.shape.size() <= TensorView::kMaxRank, "safetensors: file '", path, "' has tensor '",
            entry.name, "' with ", entry.shape.size(), " dimensions, expected at most ", TensorView::kMaxRank);
    const unsigned char* data = file.data() + header.data_start + entry.begin;
    if (reinterpret_cast<std::uintptr_t>(data) % size_of(*entry.dtype) == 0)
      return {const_cast<unsigned char*>(data), *entry.dtype, entry.shape};
    aligned_copies.push_back(Tensor::empty(entry.shape, *entry.dtype));
    std::memcpy(aligned_copies.back().view().data(), data, static_cast<std::size_t>(entry.end - entry.begin));
    return aligned_copies.back();
  }

  std::string path;
  MappedFile file;
  SafetensorsHeader header;
  std::unordered_map<std::string, std::size_t> position;
  std::unordered_map<std::string, TensorView> views;
  std::vector<Tensor> aligned_copies;
};

SafetensorsFile::SafetensorsFile(const std::string& path) : state_(std::make_shared<const State>(path)) {}

const std::string& SafetensorsFile::path() const { return state_->path; }

std::span<const SafetensorsFile::Entry> SafetensorsFile::entries() const { return state_->header.entries; }

const SafetensorsFile::Entry* SafetensorsFile::find(const std::string& name) const {
  const auto found = state_->position.find(name);
  return found == state_->position.end() ? nullptr : &state_->header.entries[found->second];
}

TensorView SafetensorsFile::view(const std::string& name) const {
  const Entry* entry = find(name);
  REQUIRE(ValueError, entry != nullptr, "safetensors: file '", path(), "' has no tensor '", name, "'");
  REQUIRE(TypeError, entry->dtype, "safetensors: file '", path(), "' holds tensor '", name, "' as ", entry->dtype_name,
          ", expected F64, F32, BF16, F16, I32 or I64: convert the checkpoint first");
  return state_->views.at(name);
}

}  // namespace coda
