// The device code kernels include, as text inside the library. cmake/embed_device_files.cmake writes the table.
#pragma once

#include <span>
#include <string_view>

namespace coda::cuda {

struct DeviceFile {
  std::string_view path;  ///< below src/cuda/device, as an include names it: "sm90/mainloop.cuh"
  std::string_view text;  ///< the whole file; a zero byte follows it
};

/// Every file, sorted by path.
std::span<const DeviceFile> device_files();

}  // namespace coda::cuda
