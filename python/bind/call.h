// One call of gemm or elementwise: the tensors given by keyword, the outputs made for those not given, and what keeps
// both alive while the core runs.
#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.h"
#include "coda/problem.h"

namespace coda::python {

/// The operands of one segment as given, in the program's order; empty where nothing was.
struct Given {
  Program program;
  std::vector<nb::object> objects;
  std::vector<std::optional<Array>> arrays;  ///< a Scalar given as a number has none
  std::vector<std::string> unknown;          ///< names the program does not have, for bind to refuse
};

/// Reads `operands`, a dict by name; None counts as not given. Errors: as import_array.
Given read_operands(std::string_view call, const Program& program, const nb::dict& operands);

/// Reads the operands of a program that are no plain outputs, given in its order from `next` on, which is moved behind
/// them. Errors: as import_array, and ValueError where there are too few.
Given read_inputs(std::string_view call, const Program& program, std::span<const nb::object>& next);

/// What outputs that are not given are made like.
struct Target {
  std::int64_t rows = 0, cols = 0;
  Extents batch;  ///< leading dimensions that make up `rows`; empty: one
  DType dtype = DType::F32;
  Framework framework = Framework::Numpy;
  Device device{};
};

/// Tensors bound by name, and the outputs to return, in the program's order.
struct Ready {
  Operands operands;
  nb::list outputs;
  std::vector<Array> held;
};

Ready make_ready(std::string_view call, Given given, const Target& target);

}  // namespace coda::python
