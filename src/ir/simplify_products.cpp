// Factors that meet their own divisor: (x · c) / c → x. c is a Col, a Scalar or a constant, presumed finite and not 0:
// row factors (norms' r, loss scales) that a derived program divides out and multiplies in again.
#include <cmath>

#include "ir/simplify_rules.h"

namespace coda {
namespace {

constexpr int kMaxProductDepth = 8;  // levels of a product that are searched; the search doubles with each

// What is left of a product when one factor, or one divisor, is taken out.
class ProductSearch {
 public:
  explicit ProductSearch(Draft& draft) : draft_(draft) {}

  // Factors (or divisors) of `id` that may cancel.
  std::vector<NodeId> factors(NodeId id) const {
    std::vector<NodeId> found;
    collect(id, Side::Factor, found, kMaxProductDepth);
    return found;
  }
  std::vector<NodeId> divisors(NodeId id) const {
    std::vector<NodeId> found;
    collect(id, Side::Divisor, found, kMaxProductDepth);
    return found;
  }

  std::optional<NodeId> without_factor(NodeId id, NodeId factor) {
    return without(id, factor, Side::Factor, kMaxProductDepth);
  }
  std::optional<NodeId> without_divisor(NodeId id, NodeId divisor) {
    return without(id, divisor, Side::Divisor, kMaxProductDepth);
  }

  NodeId times(NodeId a, NodeId b) {
    if (draft_.is_constant(a, 1)) return b;
    if (draft_.is_constant(b, 1)) return a;
    return draft_.map(Op::Mul, {a, b});
  }
  NodeId over(NodeId a, NodeId b) {
    if (draft_.is_constant(b, 1)) return a;
    if (draft_.is_constant(a, 1)) return draft_.map(Op::Rcp, {b});
    return draft_.map(Op::Div, {a, b});
  }

 private:
  enum class Side { Factor, Divisor };
  static Side other(Side side) { return side == Side::Factor ? Side::Divisor : Side::Factor; }

  bool may_cancel(NodeId id) const {
    const Node& node = draft_.at(id);
    if (node.kind == NodeKind::Const) return std::isfinite(node.value) && node.value != 0;
    return node.type.shape == Shape::Col || node.type.shape == Shape::Scalar;
  }

  // Side on which argument `position` of a product stands when the product stands on `side`; nothing for other ops.
  std::optional<Side> side_of(const Node& product, std::size_t position, Side side) const {
    if (product.kind != NodeKind::Map) return {};
    if (product.op == Op::Mul || product.op == Op::Neg || product.op == Op::Square) return side;
    if (product.op == Op::Rcp) return other(side);
    if (product.op == Op::Div) return position == 0 ? side : other(side);
    return {};
  }

  void collect(NodeId id, Side side, std::vector<NodeId>& found, int depth) const {
    if (side == Side::Factor && may_cancel(id)) found.push_back(id);
    if (depth == 0) return;
    const Node& node = draft_.at(id);
    for (std::size_t i = 0; i < node.args.size(); ++i)
      if (const auto inner = side_of(node, i, side)) collect(node.args[i], *inner, found, depth - 1);
  }

  std::optional<NodeId> without(NodeId id, NodeId gone, Side side, int depth) {
    if (side == Side::Factor && id == gone) return draft_.constant(1);
    if (depth == 0) return {};
    const Node node = draft_.at(id);
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      const auto inner = side_of(node, i, side);
      if (!inner) continue;
      const auto left = without(node.args[i], gone, *inner, depth - 1);
      if (left) return rebuilt(node, i, *left);
    }
    return {};
  }

  // The product with argument `position` exchanged.
  NodeId rebuilt(const Node& node, std::size_t position, NodeId arg) {
    if (node.op == Op::Square) return times(arg, node.args[0]);
    if (node.op == Op::Neg) return draft_.map(Op::Neg, {arg});
    if (node.op == Op::Rcp) return over(draft_.constant(1), arg);
    std::vector<NodeId> args = node.args;
    args[position] = arg;
    return node.op == Op::Mul ? times(args[0], args[1]) : over(args[0], args[1]);
  }

  Draft& draft_;
};

// a · b where a factor of one is a divisor of the other
Candidates cancelled_product(Draft& draft, NodeId site) {
  if (!draft.is_map(site, Op::Mul)) return {};
  const NodeId a = draft.at(site).args[0], b = draft.at(site).args[1];
  ProductSearch search(draft);
  Candidates candidates;
  for (const NodeId common : search.divisors(b)) {
    const auto rest = search.without_factor(a, common);
    if (rest) candidates.push_back(search.times(*rest, *search.without_divisor(b, common)));
  }
  for (const NodeId common : search.divisors(a)) {
    const auto rest = search.without_factor(b, common);
    if (rest) candidates.push_back(search.times(*search.without_divisor(a, common), *rest));
  }
  return candidates;
}

// a / b where both have a factor, or a divisor, in common
Candidates cancelled_quotient(Draft& draft, NodeId site) {
  if (!draft.is_map(site, Op::Div)) return {};
  const NodeId a = draft.at(site).args[0], b = draft.at(site).args[1];
  ProductSearch search(draft);
  Candidates candidates;
  for (const NodeId common : search.factors(b)) {
    const auto rest = search.without_factor(a, common);
    if (rest) candidates.push_back(search.over(*rest, *search.without_factor(b, common)));
  }
  for (const NodeId common : search.divisors(b)) {
    const auto rest = search.without_divisor(a, common);
    if (rest) candidates.push_back(search.over(*rest, *search.without_divisor(b, common)));
  }
  return candidates;
}

constexpr Rule kRules[] = {
    {"cancelled product", cancelled_product},
    {"cancelled quotient", cancelled_quotient},
};

}  // namespace

std::span<const Rule> product_rules() { return kRules; }

}  // namespace coda
