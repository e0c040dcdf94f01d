// Interprets the nodes of one program for a block of rows of its segment.
#pragma once

#include <cstdint>
#include <vector>

#include "coda/problem.h"

namespace coda::cpu {

/// A value over a block of rows, in double. A stride is 0 along an axis the value does not have.
struct Block {
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;
  std::vector<double> data;

  double at(std::int64_t row, std::int64_t col) const {
    return data[static_cast<std::size_t>(row * row_stride + col * col_stride)];
  }
};

/// The rows of a segment that are interpreted together.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool is_last = false;
};

class NodeInterpreter {
 public:
  NodeInterpreter(const Problem& problem, std::size_t segment)
      : problem_(problem), number_(segment), segment_(problem.segments[segment]) {}

  /// Evaluates every node, then stores: an output may lie in the place of an input.
  void run(const RowRange& range);

 private:
  /// Entries of a value of `type` along the columns.
  std::int64_t width_of(const Type& type) const;
  Block empty_block(std::int64_t rows, std::int64_t cols) const;
  Block block_of(const Type& type) const;
  const Block& value(NodeId id) const { return values_[static_cast<std::size_t>(id)]; }

  Block evaluate(const Node& node) const;
  Block accumulator(int which) const;
  Block load(const Node& node) const;
  Block load_partials(const Operand& operand, const TensorView& tensor) const;
  Block index(const Node& node) const;
  Block map(const Node& node) const;
  Block split(const Node& node) const;
  Block join(const Node& node) const;
  Block span_reduce(const Node& node) const;
  Block reduce(const Node& node) const;
  Block round(const Node& node) const;
  Block select_col(const Node& node) const;
  void store(const Node& node) const;

  const Problem& problem_;
  std::size_t number_;
  const BoundSegment& segment_;
  RowRange range_;
  std::vector<Block> values_;  ///< by NodeId; empty for stores
};

}  // namespace coda::cpu
