// Constants, neutral elements, signs and powers. Exact but for the sign of a zero; a NaN is never dropped.
#include <cmath>
#include <limits>

#include "ir/simplify_rules.h"

namespace coda {
namespace {

// The op of a Map, or nothing that equals one.
std::optional<Op> op_of(const Draft& draft, NodeId id) {
  const Node& node = draft.at(id);
  return node.kind == NodeKind::Map ? std::optional(node.op) : std::nullopt;
}

Candidates fold(Draft& draft, NodeId site) {
  const Node node = draft.at(site);
  if (node.args.empty()) return {};
  std::vector<double> values;
  for (const NodeId arg : node.args) {
    if (!draft.is_constant(arg)) return {};
    values.push_back(draft.at(arg).value);
  }
  if (node.kind == NodeKind::Round) return {draft.constant(round_to(node.dtype, values[0]))};
  if (node.kind != NodeKind::Map) return {};
  return {draft.constant(op_row(node.op).reference(values.data()))};
}

// x + 0, x − 0, x · 1, x / 1
Candidates neutral_element(Draft& draft, NodeId site) {
  const auto op = op_of(draft, site);
  const auto& args = draft.at(site).args;
  const bool either_side = op == Op::Add || op == Op::Mul;
  if (!either_side && op != Op::Sub && op != Op::Div) return {};
  const double neutral = op == Op::Add || op == Op::Sub ? 0 : 1;
  if (draft.is_constant(args[1], neutral)) return {args[0]};
  if (either_side && draft.is_constant(args[0], neutral)) return {args[1]};
  return {};
}

// 0 − x, −1 · x, x / −1 → −x; 1 / x → rcp(x)
Candidates unary_form(Draft& draft, NodeId site) {
  const auto op = op_of(draft, site);
  const std::vector<NodeId> args = draft.at(site).args;
  if (op == Op::Sub && draft.is_constant(args[0], 0)) return {draft.map(Op::Neg, {args[1]})};
  if ((op == Op::Mul || op == Op::Div) && draft.is_constant(args[1], -1)) return {draft.map(Op::Neg, {args[0]})};
  if (op == Op::Mul && draft.is_constant(args[0], -1)) return {draft.map(Op::Neg, {args[1]})};
  if (op == Op::Div && draft.is_constant(args[0], 1)) return {draft.map(Op::Rcp, {args[1]})};
  return {};
}

// c and 1/c are powers of two that fp32 holds exactly.
bool has_exact_inverse(double c) {
  int exponent = 0;
  return std::isfinite(c) && std::abs(std::frexp(c, &exponent)) == 0.5 && std::abs(exponent) < 126;
}

// x / c → x · (1/c) where that is exact
Candidates division_by_power_of_two(Draft& draft, NodeId site) {
  if (op_of(draft, site) != Op::Div) return {};
  const std::vector<NodeId> args = draft.at(site).args;
  if (!draft.is_constant(args[1]) || !has_exact_inverse(draft.at(args[1]).value)) return {};
  return {draft.map(Op::Mul, {args[0], draft.constant(1 / draft.at(args[1]).value)})};
}

// c · d or, inverted, d / c as a constant, if one of them is a power of two, so that nothing is rounded otherwise.
std::optional<NodeId> merged(Draft& draft, double c, NodeId constant, bool inverted) {
  const double d = draft.at(constant).value;
  const double value = inverted ? d / c : c * d;
  const double size = std::abs(value);
  const bool in_range = std::numeric_limits<float>::min() <= size && size <= std::numeric_limits<float>::max();
  if (!in_range || !(has_exact_inverse(c) || (!inverted && has_exact_inverse(d)))) return {};
  return draft.constant(value);
}

// c · x with c merged into a constant of x: d · y, y / d, d / y, or a sum over spans of one of them.
std::optional<NodeId> times_constant(Draft& draft, double c, NodeId x) {
  const Node node = draft.at(x);
  if (node.kind == NodeKind::SpanReduce) {
    const auto inner = times_constant(draft, c, node.args[0]);
    if (!inner) return {};
    return draft.add({.kind = NodeKind::SpanReduce, .args = {*inner}, .period = node.period});
  }
  if (node.kind != NodeKind::Map || (node.op != Op::Mul && node.op != Op::Div)) return {};
  for (std::size_t i = 0; i < 2; ++i) {
    if (!draft.is_constant(node.args[i])) continue;
    const auto constant = merged(draft, c, node.args[i], node.op == Op::Div && i == 1);
    if (!constant) continue;
    if (node.op == Op::Mul) return draft.map(Op::Mul, {node.args[1 - i], *constant});
    return i == 0 ? draft.map(Op::Div, {*constant, node.args[1]}) : draft.map(Op::Div, {node.args[0], *constant});
  }
  return {};
}

// c · (d · x) → (c·d) · x; c · (x / d) → x / (d/c); the same with a sum over spans between the two
Candidates constants_of_product(Draft& draft, NodeId site) {
  if (op_of(draft, site) != Op::Mul) return {};
  const std::vector<NodeId> args = draft.at(site).args;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!draft.is_constant(args[i])) continue;
    if (const auto product = times_constant(draft, draft.at(args[i]).value, args[1 - i])) return {*product};
  }
  return {};
}

// (c · x) / d → x / (d/c)
Candidates constants_of_quotient(Draft& draft, NodeId site) {
  if (op_of(draft, site) != Op::Div) return {};
  const std::vector<NodeId> args = draft.at(site).args;
  if (!draft.is_constant(args[1]) || !draft.is_map(args[0], Op::Mul)) return {};
  const std::vector<NodeId> product = draft.at(args[0]).args;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!draft.is_constant(product[i])) continue;
    const auto divisor = merged(draft, draft.at(product[i]).value, args[1], true);
    if (divisor) return {draft.map(Op::Div, {product[1 - i], *divisor})};
  }
  return {};
}

// Signs move into constants: −(x · c), x · −c, …
Candidates sign_into_constant(Draft& draft, NodeId site) {
  const bool outer = op_of(draft, site) == Op::Neg;
  const NodeId product = outer ? draft.at(site).args[0] : site;
  const auto op = op_of(draft, product);
  if (op != Op::Mul && op != Op::Div) return {};
  std::vector<NodeId> args = draft.at(product).args;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!draft.is_constant(args[i])) continue;
    NodeId& other = args[1 - i];
    if (!outer && !draft.is_map(other, Op::Neg)) continue;
    if (!outer) other = draft.at(other).args[0];
    args[i] = draft.constant(-draft.at(args[i]).value);
    return {draft.map(*op, args)};
  }
  return {};
}

// −(−x) → x; −(a − b) → b − a
Candidates negation(Draft& draft, NodeId site) {
  if (op_of(draft, site) != Op::Neg) return {};
  const NodeId inner = draft.at(site).args[0];
  const std::vector<NodeId> args = draft.at(inner).args;
  if (draft.is_map(inner, Op::Neg)) return {args[0]};
  if (draft.is_map(inner, Op::Sub)) return {draft.map(Op::Sub, {args[1], args[0]})};
  return {};
}

// x where the value is −x: a negation, or a product or quotient with one negated argument.
std::optional<NodeId> negated(Draft& draft, NodeId id) {
  const Node node = draft.at(id);
  if (node.kind != NodeKind::Map) return {};
  if (node.op == Op::Neg) return node.args[0];
  if (node.op != Op::Mul && node.op != Op::Div) return {};
  const bool first = draft.is_map(node.args[0], Op::Neg);
  if (first == draft.is_map(node.args[1], Op::Neg)) return {};
  std::vector<NodeId> args = node.args;
  NodeId& arg = args[first ? 0 : 1];
  arg = draft.at(arg).args[0];
  return draft.map(node.op, args);
}

// a + −b → a − b; −a + b → b − a; a − −b → a + b; −a − b → −(a + b)
Candidates sum_of_negated(Draft& draft, NodeId site) {
  const auto op = op_of(draft, site);
  if (op != Op::Add && op != Op::Sub) return {};
  const NodeId a = draft.at(site).args[0], b = draft.at(site).args[1];
  if (const auto inside = negated(draft, b)) return {draft.map(op == Op::Add ? Op::Sub : Op::Add, {a, *inside})};
  const auto inside = negated(draft, a);
  if (!inside) return {};
  if (op == Op::Add) return {draft.map(Op::Sub, {b, *inside})};
  return {draft.map(Op::Neg, {draft.map(Op::Add, {*inside, b})})};
}

// −a · −b → a · b; −a · b → −(a · b); the same for quotients
Candidates product_of_negated(Draft& draft, NodeId site) {
  const auto op = op_of(draft, site);
  if (op != Op::Mul && op != Op::Div) return {};
  std::vector<NodeId> args = draft.at(site).args;
  int signs = 0;
  for (NodeId& arg : args) {
    if (!draft.is_map(arg, Op::Neg)) continue;
    arg = draft.at(arg).args[0];
    ++signs;
  }
  if (signs == 0) return {};
  const NodeId product = draft.map(*op, args);
  return {signs == 2 ? product : draft.map(Op::Neg, {product})};
}

// (−x)², |−x|, cos(−x); |x|², ||x||
Candidates even_function(Draft& draft, NodeId site) {
  const auto op = op_of(draft, site);
  if (op != Op::Square && op != Op::Abs && op != Op::Cos) return {};
  const NodeId inner = draft.at(site).args[0];
  if (!draft.is_map(inner, Op::Neg) && !draft.is_map(inner, Op::Abs)) return {};
  return {draft.map(*op, {draft.at(inner).args[0]})};
}

// x · x → x²; 1/√x and 1/(1/√x); a/√x → a · rsqrt(x)
Candidates powers(Draft& draft, NodeId site) {
  const auto op = op_of(draft, site);
  const std::vector<NodeId> args = draft.at(site).args;
  const auto inside = [&](NodeId id) { return draft.at(id).args[0]; };
  if (op == Op::Mul && args[0] == args[1]) return {draft.map(Op::Square, {args[0]})};
  if (op == Op::Rcp && draft.is_map(args[0], Op::Sqrt)) return {draft.map(Op::Rsqrt, {inside(args[0])})};
  if (op == Op::Rcp && draft.is_map(args[0], Op::Rsqrt)) return {draft.map(Op::Sqrt, {inside(args[0])})};
  if (op == Op::Div && draft.is_map(args[1], Op::Sqrt))
    return {draft.map(Op::Mul, {args[0], draft.map(Op::Rsqrt, {inside(args[1])})})};
  return {};
}

constexpr Rule kRules[] = {
    {"fold", fold},
    {"neutral element", neutral_element},
    {"unary form", unary_form},
    {"division by power of two", division_by_power_of_two},
    {"constants of product", constants_of_product},
    {"constants of quotient", constants_of_quotient},
    {"sign into constant", sign_into_constant},
    {"negation", negation},
    {"sum of negated", sum_of_negated},
    {"product of negated", product_of_negated},
    {"even function", even_function},
    {"powers", powers},
};

}  // namespace

std::span<const Rule> algebra_rules() { return kRules; }

}  // namespace coda
