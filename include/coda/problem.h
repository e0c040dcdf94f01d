// Problem: one launch, checked. Factors of the product, a program for each segment of the output, and every operand
// bound to a tensor of the right shape and dtype.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coda/program.h"
#include "coda/tensor.h"

namespace coda {

/// One factor of the product as a view of one or several matrices, so that weights stay as the checkpoint has them.
/// Any matrix may be transposed: strides say so.
struct Factor {
  enum class View : std::uint8_t {
    Single,
    Pair,    ///< B only: two (K,N) matrices, giving two accumulators
    Concat,  ///< A along M or B along N: one segment each
    ConcatK  ///< along K, A and B alike: their products are summed
  };
  View view = View::Single;
  std::vector<TensorView> parts;

  Factor() = default;
  Factor(const TensorView& matrix) : parts{matrix} {}     // NOLINT: a matrix is a factor
  Factor(const Tensor& matrix) : parts{matrix.view()} {}  // NOLINT
};

Factor pair(const TensorView& first, const TensorView& second);
Factor concat(std::vector<TensorView> parts);
Factor concat_k(std::vector<TensorView> parts);

struct NamedTensor {
  std::string name;
  TensorView tensor;
};
using Operands = std::vector<NamedTensor>;

/// A program and its tensors, for one segment of the output.
struct Segment {
  Program program;
  Operands operands;
};

/// A segment with its place in the output and its operands in the program's order.
struct BoundSegment {
  Program program{};
  /// All of rank 2: a Row is [1, entries], a Col [entries, 1], a Scalar [1, 1]; an extent of 1 has stride 0, so the
  /// entry for (r, c) is `r·stride(0) + c·stride(1)` elements after data().
  std::vector<TensorView> operands{};
  std::int64_t row = 0;   ///< first row of the segment in the whole output
  std::int64_t col = 0;   ///< first column
  std::int64_t rows = 0;  ///< its own M
  std::int64_t cols = 0;  ///< its own N
};

struct Problem {
  std::string call{};  ///< the name errors begin with
  Factor a{};          ///< (M,K) matrices; empty for an elementwise pass
  Factor b{};          ///< (K,N) matrices; empty for an elementwise pass
  Device device{};     ///< of every tensor
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::vector<BoundSegment> segments{};
};

/// Checks shapes, dtypes, names and devices (one for all tensors) and binds them. A is (M,K), B is (K,N); one segment,
/// or one for each part of a Concat factor; row and column numbers count within a segment. Inputs may have any strides
/// and overlap one another; an output may overlap nothing, save that a Tile output may be the very view of a Tile input
/// of its segment (in place). Errors: ValueError, TypeError, NotImplementedError, all before anything runs.
Problem bind(std::string_view call, const Factor& a, const Factor& b, std::span<const Segment> segments);

/// The same for a program without accumulator over a rows × cols output.
Problem bind_elementwise(std::string_view call, std::int64_t rows, std::int64_t cols, const Segment& segment);

/// The same for several of them side by side, segment i over cols[i] columns.
Problem bind_elementwise(std::string_view call, std::int64_t rows, std::span<const std::int64_t> cols,
                         std::span<const Segment> segments);

/// Shape a tensor bound to `operand` has for an output of rows × cols. For an input of partials whose width is open,
/// the open extent is −1.
std::vector<std::int64_t> operand_shape(const Operand& operand, std::int64_t rows, std::int64_t cols);

/// Refuses entries of the index of every SelectCol that are no column of the output, computed ones included, before
/// anything runs: an index is a Col, so it never depends on the accumulator. On a GPU nothing is checked. Errors:
/// IndexError naming row, value and range.
void check_indices(const Problem& problem);

}  // namespace coda
