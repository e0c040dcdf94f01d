// Gradients that are sums over rows or columns: stored as partials, factors that do not vary left to another program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

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

struct Reduced {
  Program program{};
  std::map<std::string, Finish> finish{};  ///< of each finished sum, by the output of the raw backward
};

/// The program with a reduction, one partial for every `width` columns or rows, in the place of each open sum, by
/// output.
Reduced reduce_open_sums(const Program& raw, const std::map<std::string, OpenSum>& sums, std::int64_t width);

}  // namespace coda
