// Machine code as text, by NVIDIA's nvdisasm where it is installed.
#pragma once

#include <optional>
#include <string>

namespace coda::cuda {

/// SASS of a cubin; nothing when no nvdisasm is on PATH, beside the NVRTC in use, or among Python's packages. Errors:
/// FileError when it cannot be run or fails.
std::optional<std::string> disassemble(const std::string& cubin);

}  // namespace coda::cuda
