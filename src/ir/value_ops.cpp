// The operators and functions on Values: one line for each op.
#include "coda/build.h"

namespace coda {

Value operator+(const Value& a, const Value& b) { return map(Op::Add, {a, b}); }
Value operator-(const Value& a, const Value& b) { return map(Op::Sub, {a, b}); }
Value operator*(const Value& a, const Value& b) { return map(Op::Mul, {a, b}); }
Value operator/(const Value& a, const Value& b) { return map(Op::Div, {a, b}); }
Value operator-(const Value& a) { return map(Op::Neg, {a}); }
Value operator+(const Value& a, double b) { return a + constant_like(a, b); }
Value operator-(const Value& a, double b) { return a - constant_like(a, b); }
Value operator*(const Value& a, double b) { return a * constant_like(a, b); }
Value operator/(const Value& a, double b) { return a / constant_like(a, b); }
Value operator+(double a, const Value& b) { return constant_like(b, a) + b; }
Value operator-(double a, const Value& b) { return constant_like(b, a) - b; }
Value operator*(double a, const Value& b) { return constant_like(b, a) * b; }
Value operator/(double a, const Value& b) { return constant_like(b, a) / b; }

Value abs(const Value& a) { return map(Op::Abs, {a}); }
Value min(const Value& a, const Value& b) { return map(Op::Min, {a, b}); }
Value max(const Value& a, const Value& b) { return map(Op::Max, {a, b}); }
Value clamp(const Value& a, const Value& low, const Value& high) { return map(Op::Clamp, {a, low, high}); }
Value clamp(const Value& a, double low, double high) { return clamp(a, constant_like(a, low), constant_like(a, high)); }
Value exp(const Value& a) { return map(Op::Exp, {a}); }
Value exp2(const Value& a) { return map(Op::Exp2, {a}); }
Value log(const Value& a) { return map(Op::Log, {a}); }
Value rcp(const Value& a) { return map(Op::Rcp, {a}); }
Value sqrt(const Value& a) { return map(Op::Sqrt, {a}); }
Value rsqrt(const Value& a) { return map(Op::Rsqrt, {a}); }
Value square(const Value& a) { return map(Op::Square, {a}); }
Value tanh(const Value& a) { return map(Op::Tanh, {a}); }
Value erf(const Value& a) { return map(Op::Erf, {a}); }
Value sin(const Value& a) { return map(Op::Sin, {a}); }
Value cos(const Value& a) { return map(Op::Cos, {a}); }

Value equal(const Value& a, const Value& b) { return map(Op::Eq, {a, b}); }
Value not_equal(const Value& a, const Value& b) { return 1.0 - equal(a, b); }
Value less(const Value& a, const Value& b) { return map(Op::Lt, {a, b}); }
Value less_equal(const Value& a, const Value& b) { return map(Op::Le, {a, b}); }
Value greater(const Value& a, const Value& b) { return map(Op::Lt, {b, a}); }
Value greater_equal(const Value& a, const Value& b) { return map(Op::Le, {b, a}); }

Value select(const Value& condition, const Value& a, const Value& b) { return map(Op::Select, {condition, a, b}); }

}  // namespace coda
