// The kernels that are no program on a product: attention, its backward, and rows of a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "coda/dtype.h"

namespace coda::cuda {

/// What a kernel of attention depends on beside its arguments (device/attention.cuh).
struct AttentionSpec {
  DType dtype = DType::BF16;
  int head = 64;       ///< a multiple of 8 up to kLargestHead
  int rows = 8;        ///< queries of a block, or keys
  bool pieces = true;  ///< rows a block walks over lie in whole 16-byte pieces: of k and v, or of q and d_out
};
std::string emit_attention(const AttentionSpec& spec);
inline constexpr int kAttentionThreads = 128;
inline constexpr std::size_t kAttentionParamsBytes = 144;
inline constexpr int kLargestHead = 256;

/// The passes of attention's backward (device/attention_backward.cuh), in their order.
enum class AttentionPass : std::uint8_t { Means, ByQueries, ByKeys };
std::string emit_attention_backward(AttentionPass pass, const AttentionSpec& spec);
inline constexpr std::size_t kAttentionBackwardParamsBytes = 256;
/// Keys a block of the last pass takes: of larger heads the two sums of eight keys spill.
constexpr int keys_of_block(int head) { return head > 192 ? 4 : 8; }
inline constexpr int kPairsOfBlock = 4;  ///< queries and heads a block of the first pass takes

/// The kernels of device/gather.cuh.
std::string emit_gather(DType dtype);
std::string emit_add_rows(DType from, DType into);
inline constexpr int kGatherThreads = 256;
inline constexpr std::size_t kGatherParamsBytes = 64, kAddRowsParamsBytes = 80;

}  // namespace coda::cuda
