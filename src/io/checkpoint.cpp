#include <filesystem>
#include <nlohmann/json.hpp>

#include "coda/safetensors.h"
#include "core/check.h"

namespace coda {
namespace {

using nlohmann::json;

/// weight_map of an index file: tensor name → shard file name.
std::map<std::string, std::string> read_index(const std::string& path) {
  const json document = json::parse(read_text_file(path), nullptr, /*allow_exceptions=*/false);
  const json* map = document.is_object() && document.contains("weight_map") ? &document["weight_map"] : nullptr;
  REQUIRE(ValueError, map != nullptr && map->is_object(), "checkpoint: file '", path,
          "' is no JSON with an object 'weight_map': it is damaged, download it again");
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, shard] : map->items()) {
    REQUIRE(ValueError, shard.is_string(), "checkpoint: file '", path, "' maps tensor '", name,
            "' to something that is no file name");
    const auto file = shard.get<std::string>();
    REQUIRE(ValueError, !file.empty() && file.find('/') == std::string::npos, "checkpoint: file '", path,
            "' maps tensor '", name, "' to '", file, "', expected a file name in the same folder");
    shard_of.emplace(name, file);
  }
  return shard_of;
}

}  // namespace

Checkpoint::Checkpoint(const std::string& folder) : folder_(folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  REQUIRE(FileError, fs::is_directory(folder, ignored), "checkpoint: '", folder,
          "' is no folder, expected one with config.json and model.safetensors");
  const std::string single = (fs::path(folder) / "model.safetensors").string();
  const std::string index = (fs::path(folder) / "model.safetensors.index.json").string();
  if (fs::exists(single, ignored)) {
    files_.emplace_back(single);
    for (const SafetensorsFile::Entry& entry : files_[0].entries()) file_of_.emplace(entry.name, 0);
    return;
  }
  REQUIRE(FileError, fs::exists(index, ignored), "checkpoint: folder '", folder,
          "' has neither model.safetensors nor model.safetensors.index.json: save the model with "
          "save_pretrained(folder, safe_serialization=True)");
  open_shards(index);
}

void Checkpoint::open_shards(const std::string& index_path) {
  namespace fs = std::filesystem;
  std::map<std::string, std::size_t> opened;
  for (const auto& [name, shard] : read_index(index_path)) {
    const auto [position, is_new] = opened.try_emplace(shard, files_.size());
    if (is_new) {
      const fs::path path = fs::path(folder_) / shard;
      std::error_code ignored;
      REQUIRE(FileError, fs::exists(path, ignored), "checkpoint: shard '", shard, "' is missing from folder '", folder_,
              "', which model.safetensors.index.json names: download it");
      files_.emplace_back(path.string());
    }
    REQUIRE(ValueError, files_[position->second].find(name) != nullptr, "checkpoint: shard '", shard, "' of folder '",
            folder_, "' has no tensor '", name, "', which model.safetensors.index.json places there");
    file_of_.emplace(name, position->second);
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

TensorView Checkpoint::view(const std::string& name) const {
  const auto found = file_of_.find(name);
  REQUIRE(ValueError, found != file_of_.end(), "checkpoint: folder '", folder_, "' has no tensor '", name, "'");
  return files_[found->second].view(name);
}

}  // namespace coda
