// BLAKE3 of a sequence of fields. Each enters with its length, so that ("ab", "c") and ("a", "bc") differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coda::cuda {

/// 64 hex digits.
std::string digest(const std::vector<std::string_view>& fields);

/// 64 hex digits of the bytes alone, as `b3sum` prints them.
std::string checksum(std::string_view bytes);

}  // namespace coda::cuda
