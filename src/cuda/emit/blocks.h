// The kernels that are no program on a product: attention and rows of a table.
#pragma once

#include <cstddef>
#include <string>

#include "coda/dtype.h"

namespace coda::cuda {

/// What a kernel of attention depends on beside its arguments (device/attention.cuh).
struct AttentionSpec {
  DType dtype = DType::BF16;
  int head = 64;       ///< a multiple of 8 up to kLargestHead
  int rows = 8;        ///< queries of a block
  bool pieces = true;  ///< rows of k and v lie in whole 16-byte pieces
};
std::string emit_attention(const AttentionSpec& spec);
inline constexpr int kAttentionThreads = 128;
inline constexpr std::size_t kAttentionParamsBytes = 120;
inline constexpr int kLargestHead = 256;

/// The kernel of device/gather.cuh.
std::string emit_gather(DType dtype);
inline constexpr int kGatherThreads = 256;
inline constexpr std::size_t kGatherParamsBytes = 64;

}  // namespace coda::cuda
