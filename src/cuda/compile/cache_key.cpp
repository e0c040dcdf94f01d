#include "cuda/compile/cache_key.h"

#include <algorithm>
#include <vector>

#include "cuda/compile/digest.h"

#ifndef CODA_VERSION
#error "CODA_VERSION is missing: coda's version is part of a kernel's key"
#endif

namespace coda::cuda {
namespace {

// 128 bits: no two kernels meet by chance, and a folder's name stays readable.
constexpr std::size_t kKeyDigits = 32;

// A file's name has at most 255 bytes.
constexpr std::size_t kLongestName = 200;

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

std::string coda_version() { return CODA_VERSION; }

std::string digest_of(std::span<const DeviceFile> files) {
  std::vector<std::string_view> fields;
  for (const DeviceFile& file : files) {
    fields.push_back(file.path);
    fields.push_back(file.text);
  }
  return digest(fields);
}

std::string key_of(const CompilationInputs& inputs) {
  const std::string schema = std::to_string(inputs.schema);
  return digest({schema, inputs.name, inputs.text, inputs.arch, inputs.options, inputs.nvrtc, inputs.coda,
                 inputs.device_files})
      .substr(0, kKeyDigits);
}

std::string entry_name(const std::string& name, const std::string& key) {
  return name.substr(0, kLongestName) + "." + key;
}

bool is_entry_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string_view key = name.substr(dot + 1);
  return key.size() == kKeyDigits && std::all_of(key.begin(), key.end(), is_hex);
}

}  // namespace coda::cuda
