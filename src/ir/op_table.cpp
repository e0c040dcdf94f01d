// The op table: what every pointwise op means (in double) and how its derivative is built. Reference, gradient and
// tests iterate it; docs/add_an_op.md tells how a row is added.
//
// NaN: arithmetic passes it on; min, max, clamp and relu keep it, whichever argument it is; comparisons give 0; a NaN
// condition counts as true. Kinks: abs has derivative 0 at 0, relu 0 at 0; where the arguments of min, max or clamp are
// equal, the first has the whole cotangent.
//
// C++ leaves open which operand of an operator, or argument of a call, is evaluated first: where two of them would make
// nodes, one is made in a statement before, so that a derived program is the same text from every compiler.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "coda/build.h"
#include "coda/ops.h"
#include "core/check.h"

namespace coda {
namespace {

using Args = std::span<const Value>;
using Cotangents = std::vector<Value>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr Interval kReal{-3, 3};
constexpr Interval kPositive{0.25, 4};

double nan_min(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNaN : (b < a ? b : a); }
double nan_max(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNaN : (a < b ? b : a); }

// A comparison with NaN does not hold: rows written with zero_if let the cotangent through at a NaN.
Value zero_if(const Value& condition, const Value& value) { return select(condition, constant_like(value, 0), value); }
Value zero_unless(const Value& condition, const Value& value) {
  return select(condition, value, constant_like(value, 0));
}

Cotangents abs_vjp(Args x, const Value&, const Value& g) {
  const Value zero = constant_like(x[0], 0);
  const Value positive = less(zero, x[0]);
  const Value negative = less(x[0], zero);
  const Value neither = x[0] * g;  // 0 at 0, NaN at NaN
  const Value reversed = -g;
  const Value otherwise = select(negative, reversed, neither);
  return {select(positive, g, otherwise)};
}

Cotangents min_vjp(Args x, const Value&, const Value& g) {
  return {zero_if(less(x[1], x[0]), g), zero_if(less_equal(x[0], x[1]), g)};
}

Cotangents max_vjp(Args x, const Value&, const Value& g) {
  return {zero_if(less(x[0], x[1]), g), zero_if(less_equal(x[1], x[0]), g)};
}

// clamp is min(max(a, b), c): where the bounds cross, the upper one is the result.
Cotangents clamp_vjp(Args x, const Value&, const Value& g) {
  const Value below = less(x[0], x[1]);
  const Value unless_above = zero_if(less(x[2], x[0]), g);
  const Value unless_crossed = zero_if(less(x[2], x[1]), g);
  const Value above = less(x[2], max(x[0], x[1]));
  return {zero_if(below, unless_above), zero_unless(below, unless_crossed), zero_unless(above, g)};
}

Cotangents div_vjp(Args x, const Value& out, const Value& g) {
  const Value by_a = g / x[1];
  return {by_a, -(by_a * out)};
}

// Comparisons are flat almost everywhere.
Cotangents no_vjp(Args x, const Value&, const Value&) { return Cotangents(x.size()); }

// Formatted by hand: a row is read across.
// clang-format off
#define REF(expression) [](const double* x) -> double { return expression; }
#define VJP(...)                                                                                    \
  []([[maybe_unused]] Args x, [[maybe_unused]] const Value& out, [[maybe_unused]] const Value& g) { \
    return Cotangents{__VA_ARGS__};                                                                 \
  }

constexpr std::array kTable{
    OpRow{Op::Add, "add", 2, "a + b", REF(x[0] + x[1]), VJP(g, g), {kReal, kReal}},
    OpRow{Op::Sub, "sub", 2, "a - b", REF(x[0] - x[1]), VJP(g, -g), {kReal, kReal}},
    OpRow{Op::Mul, "mul", 2, "a * b", REF(x[0] * x[1]), VJP(g * x[1], g * x[0]), {kReal, kReal}},
    OpRow{Op::Div, "div", 2, "a / b", REF(x[0] / x[1]), div_vjp, {kReal, kPositive}},
    OpRow{Op::Neg, "neg", 1, "-a", REF(-x[0]), VJP(-g), {kReal}},
    OpRow{Op::Abs, "abs", 1, "|a|", REF(std::abs(x[0])), abs_vjp, {kReal}},
    OpRow{Op::Min, "min", 2, "b < a ? b : a, NaN if either is", REF(nan_min(x[0], x[1])), min_vjp, {kReal, kReal}},
    OpRow{Op::Max, "max", 2, "a < b ? b : a, NaN if either is", REF(nan_max(x[0], x[1])), max_vjp, {kReal, kReal}},

    OpRow{Op::Exp, "exp", 1, "e^a", REF(std::exp(x[0])), VJP(g * out), {kReal}},
    OpRow{Op::Exp2, "exp2", 1, "2^a", REF(std::exp2(x[0])), VJP(g * out * std::numbers::ln2), {kReal}},
    OpRow{Op::Log, "log", 1, "ln a", REF(std::log(x[0])), VJP(g / x[0]), {kPositive}},
    OpRow{Op::Rcp, "rcp", 1, "1 / a", REF(1 / x[0]), VJP(-(g * square(out))), {kPositive}},
    OpRow{Op::Sqrt, "sqrt", 1, "a^(1/2)", REF(std::sqrt(x[0])), VJP(0.5 * g / out), {kPositive}},
    OpRow{Op::Rsqrt, "rsqrt", 1, "a^(-1/2)", REF(1 / std::sqrt(x[0])),
          VJP(g * (out * square(out)) * -0.5), {kPositive}},
    OpRow{Op::Square, "square", 1, "a * a", REF(x[0] * x[0]), VJP(2.0 * g * x[0]), {kReal}},

    OpRow{Op::Sigmoid, "sigmoid", 1, "1 / (1 + e^-a)", REF(1 / (1 + std::exp(-x[0]))),
          VJP(g * (out * (1.0 - out))), {kReal}},
    OpRow{Op::Tanh, "tanh", 1, "tanh a", REF(std::tanh(x[0])), VJP(g * (1.0 - square(out))), {kReal}},
    OpRow{Op::Erf, "erf", 1, "2/sqrt(pi) * integral of e^(-t^2) from 0 to a", REF(std::erf(x[0])),
          VJP(g * exp(-square(x[0])) * (2 * std::numbers::inv_sqrtpi)), {kReal}},
    OpRow{Op::Sin, "sin", 1, "sin a", REF(std::sin(x[0])), VJP(g * cos(x[0])), {kReal}},
    OpRow{Op::Cos, "cos", 1, "cos a", REF(std::cos(x[0])), VJP(-(g * sin(x[0]))), {kReal}},
    OpRow{Op::Relu, "relu", 1, "max(a, 0), NaN if a is", REF(nan_max(x[0], 0)),
          VJP(zero_if(less_equal(x[0], constant_like(x[0], 0)), g)), {kReal}},

    OpRow{Op::Eq, "eq", 2, "a == b ? 1 : 0", REF(x[0] == x[1] ? 1 : 0), no_vjp, {kReal, kReal}},
    OpRow{Op::Lt, "lt", 2, "a < b ? 1 : 0", REF(x[0] < x[1] ? 1 : 0), no_vjp, {kReal, kReal}},
    OpRow{Op::Le, "le", 2, "a <= b ? 1 : 0", REF(x[0] <= x[1] ? 1 : 0), no_vjp, {kReal, kReal}},
    OpRow{Op::Select, "select", 3, "a != 0 ? b : c", REF(x[0] != 0 ? x[1] : x[2]),
          VJP({}, zero_unless(x[0], g), zero_if(x[0], g)), {kReal, kReal, kReal}},
    OpRow{Op::Clamp, "clamp", 3, "min(max(a, b), c), NaN if any is", REF(nan_min(nan_max(x[0], x[1]), x[2])), clamp_vjp,
          {kReal, {-2, -0.5}, {0.5, 2}}},
};

#undef REF
#undef VJP
// clang-format on

// One row an op, in the order of the enum, so that an op is its row's position.
constexpr bool rows_are_ops() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i].op != static_cast<Op>(i) || kTable[i].arity < 1 || kTable[i].arity > 3) return false;
  return true;
}
static_assert(kTable.size() == kOpCount, "every Op needs a row in the op table");
static_assert(rows_are_ops(), "the rows of the op table stand in the order of enum Op");

}  // namespace

const OpRow& op_row(Op op) {
  const auto index = static_cast<std::size_t>(op);
  INVARIANT(index < kTable.size(), "op ", index, " of ", kTable.size());
  return kTable[index];
}

std::span<const OpRow> op_table() { return kTable; }

std::optional<Op> op_from_name(std::string_view name) {
  for (const OpRow& row : kTable)
    if (row.name == name) return row.op;
  return {};
}

}  // namespace coda
