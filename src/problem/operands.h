// Binding of a program's operands to tensors: names, shapes, dtypes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coda/problem.h"
#include "problem/factors.h"

namespace coda {

/// Where a program is bound, for its operands' shapes and for error messages.
struct Place {
  std::string_view call;
  int segment = -1;  ///< number to name in messages; −1 when the call has one segment
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Home home{};
};

/// "operand 'bias'", or "operand 'bias' of segment 1".
std::string operand_text(const Place& place, std::string_view name);

/// Refuses a number of columns that a head, span or period of the program does not divide. Errors: ValueError.
void check_columns(const Place& place, const Program& program);

/// The tensors in the order of the program's operands, as BoundSegment holds them. Errors: ValueError, TypeError,
/// NotImplementedError.
std::vector<TensorView> bind_operands(const Place& place, const Program& program, const Operands& given);

}  // namespace coda
