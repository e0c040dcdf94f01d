// Gradients that are sums over rows or columns: stored as partials, factors that do not vary left to another program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coda/program.h"

namespace coda {

/// A Tile output of a raw backward, of which the sum along `axis` is meant.
struct OpenSum {
  Axis axis = Axis::Row;
  bool is_finished = false;  ///< by a program of its own: factors that do not vary along the axis are left to it
};

/// What is left to do to the sum: output `output` holds it without some factors, `program` makes the whole of it.
struct Finish {
  std::string output{};
  Program program{};
};

/// A term of a finished sum that has an output of its own.
struct SumTerm {
  std::string output{};
  bool is_negative = false;
};

struct Reduced {
  Program program{};
  std::map<std::string, Finish> finish{};               ///< of each finished sum, by the output of the raw backward
  std::map<std::string, std::vector<SumTerm>> terms{};  ///< of sums taken apart, by output
};

/// What a partial covers: columns of a row, or rows of a column.
struct PartialExtents {
  std::int64_t width, rows;
  std::int64_t along(Axis axis) const { return axis == Axis::Row ? width : rows; }
};

/// The program with a reduction, one partial for every extent of columns or rows, in the place of each open sum, by
/// output. `apart`: finished sums along rows are multiplied out, Σ u·(v − w) to Σ u·v and Σ u·w, each with an output of
/// its own, so that simplify may move one inner product and not the other across a linear map.
Reduced reduce_open_sums(const Program& raw, const std::map<std::string, OpenSum>& sums, const PartialExtents& extents,
                         bool apart = false);

/// The program with the terms of each sum put together again, in one reduction.
Program put_together(const Program& program, const std::map<std::string, std::vector<SumTerm>>& terms);

}  // namespace coda
