// The pointwise operations. Each is one row of the table in src/ir/op_table.cpp: name, arity, formula, scalar
// reference, vector-Jacobian product and test domain. Adding one: docs/add_an_op.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace coda {

class Value;

enum class Op : std::uint8_t {
  Add,      ///< a + b
  Sub,      ///< a − b
  Mul,      ///< a·b
  Div,      ///< a / b
  Neg,      ///< −a
  Abs,      ///< |a|
  Min,      ///< the smaller; NaN if either is
  Max,      ///< the larger; NaN if either is
  Exp,      ///< eᵃ
  Exp2,     ///< 2ᵃ
  Log,      ///< ln a
  Rcp,      ///< 1 / a
  Sqrt,     ///< √a
  Rsqrt,    ///< 1 / √a
  Square,   ///< a²
  Sigmoid,  ///< 1 / (1 + e⁻ᵃ)
  Tanh,     ///< tanh a
  Erf,      ///< 2/√π · ∫₀ᵃ exp(−t²) dt
  Sin,      ///< sin a, radians
  Cos,      ///< cos a, radians
  Relu,     ///< max(a, 0); NaN if a is
  Eq,       ///< 1 where a = b, else 0
  Lt,       ///< 1 where a < b, else 0
  Le,       ///< 1 where a ≤ b, else 0
  Select,   ///< b where a ≠ 0, else c
  Clamp,    ///< min(max(a, b), c); NaN if any is
};
inline constexpr int kOpCount = static_cast<int>(Op::Clamp) + 1;

/// Closed interval from which tests draw one argument of an op.
struct Interval {
  double low;
  double high;
};

/// One row of the op table.
struct OpRow {
  Op op;
  std::string_view name;     ///< as printed in program text
  int arity;                 ///< 1, 2 or 3
  std::string_view formula;  ///< in a, b, c
  /// The meaning, in double; `args` has `arity` entries.
  double (*reference)(const double* args);
  /// Cotangents of the arguments, given the arguments, the result and the result's cotangent. An argument without a
  /// derivative (a condition) gets an empty Value.
  std::vector<Value> (*vjp)(std::span<const Value> args, const Value& result, const Value& cotangent);
  /// Where tests draw each argument from, inside the domain. Kinks (abs at 0, min at a = b) may lie inside: a test of
  /// derivatives passes over points beside one.
  Interval domain[3];
};

const OpRow& op_row(Op op);
std::span<const OpRow> op_table();
std::optional<Op> op_from_name(std::string_view name);

}  // namespace coda
