// A few lines that run a program in double, whole output at once and nothing rounded at its stores: what tests of
// src/ir compare programs by, independent of every backend.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coda/program.h"

namespace coda::testing_support {

/// A matrix of doubles; one row or column stands for all of them.
struct Grid {
  std::int64_t rows = 1, cols = 1;
  std::vector<double> data{0};

  Grid() = default;
  Grid(std::int64_t rows_, std::int64_t cols_)
      : rows(rows_), cols(cols_), data(static_cast<std::size_t>(rows_ * cols_)) {}
  double& at(std::int64_t i, std::int64_t j) {
    return data[static_cast<std::size_t>((rows == 1 ? 0 : i) * cols + (cols == 1 ? 0 : j))];
  }
  double at(std::int64_t i, std::int64_t j) const { return const_cast<Grid*>(this)->at(i, j); }
};

/// By operand name; accumulators are "acc(0)" and "acc(1)".
using Grids = std::map<std::string, Grid>;

/// Columns of a value in a domain, of an output of n.
std::int64_t columns_of(const Pairing& pairing, std::int64_t n);

/// Finite inputs for a program over m × n: integers from 0 to 15 for integer operands, else reals in [−2, 2] that the
/// operand's dtype holds.
Grids random_inputs(const Program& program, std::int64_t m, std::int64_t n, std::uint64_t seed);

/// Runs a program on given inputs; partials loaded count as finished. Result: what it stores.
Grids evaluate(const Program& program, const Grids& inputs, std::int64_t m, std::int64_t n);

}  // namespace coda::testing_support
