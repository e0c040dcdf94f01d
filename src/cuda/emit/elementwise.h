// The text of a kernel without a product: one program, or several side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/emit/spec.h"

namespace coda::cuda {

inline constexpr int kElementwiseThreads = 128;
inline constexpr int kElementwiseRows = 64;

/// Columns one warp takes: whole heads, whole groups of reduced columns.
std::int64_t elementwise_span(const Program& program);

/// Byte offsets in the kernel's parameter: the Arguments of the segments, and behind them for each the runs its spans
/// are cut into, one a block.
struct ElementwiseLayout {
  std::vector<std::size_t> arguments{};  ///< of each segment
  std::size_t runs = 0;
  std::size_t size = 0;
};
ElementwiseLayout elementwise_layout(const std::vector<SegmentSpec>& segments);

/// Tiles are read and written by the threads: `segments` are unstaged.
std::string emit_elementwise(const std::vector<SegmentSpec>& segments);

}  // namespace coda::cuda
