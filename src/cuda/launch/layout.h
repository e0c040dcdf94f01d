// How a problem's tensors lie in memory, and the kernel that fits them. Pure host functions: no driver, no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coda/problem.h"
#include "cuda/emit/spec.h"

namespace coda::cuda {

/// A factor's matrix as the main loop reads it: lines are rows of A or columns of B, K runs along them. Strides in
/// elements.
struct FactorMatrix {
  void* data = nullptr;
  std::int64_t lines = 0;
  std::int64_t depth = 0;
  std::int64_t line_stride = 0;
  std::int64_t depth_stride = 0;

  std::int64_t inner(bool k_major) const { return k_major ? depth : lines; }
  std::int64_t outer(bool k_major) const { return k_major ? lines : depth; }
  std::int64_t inner_stride(bool k_major) const { return k_major ? depth_stride : line_stride; }
  std::int64_t outer_stride(bool k_major) const { return k_major ? line_stride : depth_stride; }

  /// True when the copy engine can read it as it lies: inner stride 1, base and pitch multiples of 16 bytes.
  bool fits(bool k_major) const;

  /// Elements from one line of the inner dimension to the next.
  std::int64_t pitch(bool k_major) const;

  /// The matrix as a copy at `to` that fits, and the bytes of it.
  FactorMatrix copy_at(void* to, bool k_major) const;
  std::size_t copy_bytes(bool k_major) const;
};

FactorMatrix a_matrix(const TensorView& part);
FactorMatrix b_matrix(const TensorView& part);

/// Way of a bound tile operand into a kernel. Other operands are read by the threads: Single.
Access access_of(const Operand& operand, const TensorView& tensor);

/// A tensor that could travel as `bound` can be had by a kernel that takes it as `planned`.
bool serves(Access bound, Access planned);

/// Why outputs cannot lie where they do, or nothing. `split`: as in SegmentSpec.
std::optional<std::string> place_refusal(const BoundSegment& segment, const std::vector<bool>& split);

/// Why M, N or K is too large for a kernel, or nothing.
std::optional<std::string> extent_refusal(const Problem& problem);

/// A segment's program with the dtypes of its operands fixed, and how each travels.
SegmentSpec specialise(const BoundSegment& segment);

/// The programs of a problem without a product: every tile is read and written by the threads.
std::vector<SegmentSpec> specialise_elementwise(const Problem& problem);

/// The kernel of a problem, but for its schedule: element type, majors that need the fewest copies, segments.
KernelSpec specialise(const Problem& problem);

/// Extents and traits its schedule is chosen for.
GemmShape gemm_shape(const Problem& problem, const KernelSpec& spec);

/// Tiles of clusters over the whole output: each segment starts a new one.
struct ClusterGrid {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int32_t> segment_tiles;  ///< along the segments' direction
};
ClusterGrid cluster_grid(const Problem& problem, const KernelSpec& spec);

}  // namespace coda::cuda
