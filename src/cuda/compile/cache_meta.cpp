#include "cuda/compile/cache_meta.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "cuda/compile/digest.h"

namespace coda::cuda {
namespace {

using Json = nlohmann::json;

// Fixed by the content alone: keys are sorted, and bytes of a log that are no UTF-8 are replaced.
std::string written(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json file_facts(std::string_view bytes) { return {{"bytes", bytes.size()}, {"blake3", checksum(bytes)}}; }

}  // namespace

std::string make_meta(const std::string& key, const CompilationInputs& inputs, const Cubin& cubin) {
  const Json json = {
      {"schema", inputs.schema},
      {"name", inputs.name},
      {"key", key},
      {"arch", inputs.arch},
      {"nvrtc", inputs.nvrtc},
      {"options", inputs.options},
      {"coda", inputs.coda},
      {"created", now()},
      {"log", cubin.log},
      {"kernel.cu", file_facts(inputs.text)},
      {"kernel.cubin", file_facts(cubin.image)},
  };
  // Sealed as it will be read back, with replaced bytes.
  Json sealed = Json::parse(written(json));
  sealed["seal"] = checksum(written(json));
  return written(sealed) + "\n";
}

std::string parse_meta(const std::string& json, EntryMeta& meta) {
  try {
    Json all = Json::parse(json);
    const std::string seal = all.at("seal").get<std::string>();
    all.erase("seal");
    if (seal != checksum(written(all))) return "meta.json is not as it was written";
    if (const int schema = all.at("schema").get<int>(); schema != kCacheSchema)
      return concat("meta.json has schema ", schema, ", expected ", kCacheSchema);
    meta.name = all.at("name").get<std::string>();
    meta.key = all.at("key").get<std::string>();
    meta.arch = all.at("arch").get<std::string>();
    meta.created = all.at("created").get<std::string>();
    meta.log = all.at("log").get<std::string>();
    meta.text_bytes = all.at("kernel.cu").at("bytes").get<std::size_t>();
    meta.cubin_bytes = all.at("kernel.cubin").at("bytes").get<std::size_t>();
    meta.text_checksum = all.at("kernel.cu").at("blake3").get<std::string>();
    meta.cubin_checksum = all.at("kernel.cubin").at("blake3").get<std::string>();
    return {};
  } catch (const Json::exception&) {
    return "meta.json cannot be read";
  }
}

}  // namespace coda::cuda
