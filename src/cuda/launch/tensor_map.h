// Tensor maps: what the copy engine must know of a matrix.
#pragma once

#include <cstdint>
#include <string_view>

#include "coda/dtype.h"
#include "cuda/launch/driver.h"

namespace coda::cuda {

/// A matrix in memory, its inner dimension contiguous, and the box of it that is copied at a time. Extents and the box
/// in elements.
struct MapShape {
  void* data = nullptr;  ///< aligned to 16 bytes
  DType dtype = DType::BF16;
  std::int64_t inner = 0;
  std::int64_t outer = 0;
  std::int64_t pitch = 0;  ///< elements from one line to the next; a multiple of 16 bytes
  int box_inner = 0;       ///< 32, 64 or 128 bytes: the width of the swizzle
  int box_outer = 0;
};

/// Errors: DeviceError.
void encode_map(TensorMap& map, const MapShape& shape, std::string_view call, std::string_view what);

}  // namespace coda::cuda
