// Tensors of random numbers on a GPU, for timing.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/product.h"
#include "cuda/launch/gpu.h"

namespace coda::cli {

/// Allocates and fills; frees all when it goes. Integers are column numbers of an output of `columns` columns, other
/// numbers are normal with deviation 1/4: a GPU multiplying zeros draws less power and runs faster than it would.
class DeviceMemory {
 public:
  DeviceMemory(const cuda::Gpu& gpu, std::int64_t columns) : gpu_(gpu), columns_(columns) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Errors: OutOfMemoryError, DeviceError.
  void* tensor(DType dtype, std::int64_t elements);

 private:
  const std::vector<char>& piece(DType dtype);

  const cuda::Gpu& gpu_;
  std::int64_t columns_;
  std::vector<cuda::DevicePointer> tensors_;
  std::vector<std::pair<DType, std::vector<char>>> pieces_;  ///< random numbers of each dtype
};

}  // namespace coda::cli
