// The JSON header of a safetensors file, checked in full.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coda/safetensors.h"

namespace coda {

/// Entries of the header at the start of `file`, sorted by the place of their data, and the length of what precedes
/// the data. Errors: ValueError beginning "safetensors: file '<path>'".
struct SafetensorsHeader {
  std::vector<SafetensorsFile::Entry> entries;
  std::uint64_t data_start = 0;
};
SafetensorsHeader parse_safetensors_header(const std::string& path, std::span<const unsigned char> file);

}  // namespace coda
