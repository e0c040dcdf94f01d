// Inner products moved across linear maps: ⟨L(c), v⟩ = ⟨c, Lᵀ(v)⟩ along a row. When u = L(c) and Lᵀ(v) is a value the
// program has anyway, the row sum of u · v becomes that of c · Lᵀ(v): with q = rope(z) and dz = ropeᵀ(dq), Σ dz·z
// becomes Σ dq·q, and the unrotated z need not be kept.
#include <algorithm>
#include <map>

#include "core/check.h"
#include "ir/simplify_rules.h"

namespace coda {
namespace {

// A value or its negative.
struct Signed {
  NodeId id = -1;
  bool negative = false;
};

// The values a draft has, by what they are. Only finds; makes nothing.
class Finder {
 public:
  explicit Finder(const Draft& draft) : draft_(draft) {
    for (NodeId id = 0; id < draft.size(); ++id) known_.emplace(key_of(draft.at(id)), id);
  }

  std::optional<NodeId> find(const Node& node) const {
    const auto found = known_.find(key_of(node));
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<NodeId> map(Op op, std::vector<NodeId> args) const {
    return find({.kind = NodeKind::Map, .args = std::move(args), .op = op});
  }

  std::optional<Signed> sum(Signed a, Signed b) const {
    std::optional<NodeId> id;
    if (a.negative == b.negative)
      id = map(Op::Add, {a.id, b.id});
    else if (a.negative)
      id = map(Op::Sub, {b.id, a.id});
    else
      id = map(Op::Sub, {a.id, b.id});
    return with_sign(id, a.negative && b.negative);
  }

  std::optional<Signed> product(Signed a, NodeId b) const {
    return with_sign(a.id == b ? map(Op::Square, {b}) : map(Op::Mul, {a.id, b}), a.negative);
  }
  std::optional<Signed> quotient(Signed a, NodeId b) const { return with_sign(map(Op::Div, {a.id, b}), a.negative); }

  std::optional<Signed> span_sum(Signed a, std::int64_t period) const {
    return with_sign(find({.kind = NodeKind::SpanReduce, .args = {a.id}, .period = period}), a.negative);
  }

  std::optional<Signed> split(Signed a, int index, const Pairing& pairing) const {
    const Node& whole = draft_.at(a.id);
    if (whole.kind == NodeKind::Join && whole.pairing == pairing)
      return Signed{whole.args[static_cast<std::size_t>(index)], a.negative};
    return with_sign(find({.kind = NodeKind::Split, .args = {a.id}, .index = index, .pairing = pairing}), a.negative);
  }

  std::optional<Signed> join(const std::vector<Signed>& parts, const Pairing& pairing) const {
    Node node{.kind = NodeKind::Join, .pairing = pairing};
    for (const Signed& part : parts) {
      if (part.negative != parts[0].negative) return {};
      node.args.push_back(part.id);
    }
    const Node& first = draft_.at(node.args[0]);
    const auto is_member = [&](std::size_t index) {
      const Node& member = draft_.at(node.args[index]);
      return member.kind == NodeKind::Split && member.index == static_cast<int>(index) && member.pairing == pairing &&
             member.args[0] == first.args[0];
    };
    if (is_member(0) && is_member(1) && (parts.size() == 2 || node.args[2] == first.args[0]))
      return Signed{first.args[0], parts[0].negative};
    return with_sign(find(node), parts[0].negative);
  }

 private:
  static std::optional<Signed> with_sign(std::optional<NodeId> id, bool negative) {
    return id ? std::optional(Signed{*id, negative}) : std::nullopt;
  }

  const Draft& draft_;
  std::map<NodeKey, NodeId> known_;
};

// Finds Lᵀ(v), where u = L(c), by walking from u back to c and collecting what each value's entries are multiplied by
// (reverse accumulation). Gives up where a step is not linear in c, or its transpose is not in the program.
class Transposer {
 public:
  Transposer(const Draft& draft, const Finder& finder, NodeId c, std::int64_t width)
      : draft_(draft), find_(finder), c_(c), width_(width), depends_(static_cast<std::size_t>(draft.size()), false) {
    depends_[index(c)] = true;
    for (NodeId id = c + 1; id < draft.size(); ++id)
      for (const NodeId arg : draft.at(id).args)
        if (depends_[index(arg)]) depends_[index(id)] = true;
  }

  std::optional<Signed> transpose(NodeId u, NodeId v) {
    if (!depends_[index(u)]) return {};
    received_[u].whole.push_back({v, false});
    while (!received_.empty()) {
      const auto last = std::prev(received_.end());
      const NodeId id = last->first;
      const auto weight = total(last->second);
      received_.erase(last);
      if (!weight || id == c_) return received_.empty() ? weight : std::nullopt;
      if (!pass_on(draft_.at(id), *weight)) return {};
    }
    return {};
  }

 private:
  // What arrives at a value: terms for all of it, and for its pairs' members (0, 1) and rest (2).
  struct Received {
    std::vector<Signed> whole;
    std::vector<Signed> parts[3];
    Pairing pairing;
  };

  static std::size_t index(NodeId id) { return static_cast<std::size_t>(id); }

  std::optional<Signed> sum(const std::vector<Signed>& terms) const {
    std::optional<Signed> result;
    for (const Signed& term : terms) {
      result = result ? find_.sum(*result, term) : term;
      if (!result) return {};
    }
    return result;
  }

  std::optional<Signed> total(Received& received) const {
    if (!received.pairing.is_none()) {
      std::vector<Signed> parts;
      for (int i = 0; i < (received.pairing.has_rest() ? 3 : 2); ++i) {
        const auto part = sum(received.parts[i]);
        if (!part) return {};
        parts.push_back(*part);
      }
      const auto joined = find_.join(parts, received.pairing);
      if (!joined) return {};
      received.whole.push_back(*joined);
    }
    return sum(received.whole);
  }

  bool give(NodeId to, std::optional<Signed> weight) {
    if (weight) received_[to].whole.push_back(*weight);
    return weight.has_value();
  }

  bool give_part(NodeId to, int part, const Pairing& pairing, Signed weight) {
    Received& received = received_[to];
    if (!received.pairing.is_none() && received.pairing != pairing) return false;
    received.pairing = pairing;
    received.parts[part].push_back(weight);
    return true;
  }

  // Sums stay inside an entry of partials only if its columns hold whole heads.
  bool fits(std::int64_t head) const { return width_ % head == 0; }

  bool pass_on(const Node& node, Signed weight) {
    switch (node.kind) {
      case NodeKind::Map: return pass_through_map(node, weight);
      case NodeKind::Split: return fits(node.pairing.head) && give_part(node.args[0], node.index, node.pairing, weight);
      case NodeKind::Join: return fits(node.pairing.head) && pass_through_join(node, weight);
      case NodeKind::SpanReduce: return fits(node.period) && give(node.args[0], find_.span_sum(weight, node.period));
      case NodeKind::Acc:
      case NodeKind::Const:
      case NodeKind::Load:
      case NodeKind::Index:
      case NodeKind::Reduce:
      case NodeKind::Round:
      case NodeKind::SelectCol:
      case NodeKind::Store: return false;
    }
    INVARIANT(false, "simplify: node kind ", static_cast<int>(node.kind));
  }

  bool pass_through_map(const Node& node, Signed weight) {
    const Signed negated{weight.id, !weight.negative};
    const auto depends = [&](std::size_t position) { return depends_[index(node.args[position])]; };
    if (node.op == Op::Neg) return give(node.args[0], negated);
    if (node.op == Op::Add || node.op == Op::Sub)
      return depends(0) && depends(1) && give(node.args[0], weight) &&
             give(node.args[1], node.op == Op::Add ? weight : negated);
    if (node.op == Op::Mul && depends(0) != depends(1)) {
      const std::size_t inner = depends(0) ? 0 : 1;
      return give(node.args[inner], find_.product(weight, node.args[1 - inner]));
    }
    if (node.op == Op::Div && !depends(1)) return give(node.args[0], find_.quotient(weight, node.args[1]));
    return false;
  }

  bool pass_through_join(const Node& node, Signed weight) {
    for (const NodeId arg : node.args)
      if (!depends_[index(arg)]) return false;
    for (int i = 0; i < 2; ++i)
      if (!give(node.args[static_cast<std::size_t>(i)], find_.split(weight, i, node.pairing))) return false;
    return node.args.size() == 2 || give_part(node.args[2], 2, node.pairing, weight);
  }

  const Draft& draft_;
  const Finder& find_;
  NodeId c_;
  std::int64_t width_;
  std::vector<bool> depends_;
  std::map<NodeId, Received> received_;
};

// Factors of a product: those that vary along the row, and those (Col and Scalar) that do not.
struct Factors {
  std::vector<NodeId> inner, outer;
};

Factors factors_of(const Draft& draft, NodeId product) {
  Factors factors;
  for (const NodeId factor : draft.factors(product)) {
    const Shape shape = draft.at(factor).type.shape;
    (shape == Shape::Tile || shape == Shape::Row ? factors.inner : factors.outer).push_back(factor);
  }
  return factors;
}

// The product of all inner factors but one, if the program has it.
std::optional<NodeId> others(const Finder& finder, const Factors& factors, std::size_t but) {
  std::optional<NodeId> result;
  for (std::size_t i = 0; i < factors.inner.size(); ++i) {
    if (i == but) continue;
    result = result ? finder.map(Op::Mul, {*result, factors.inner[i]}) : factors.inner[i];
    if (!result) return {};
  }
  return result;
}

NodeId moved_sum(Draft& draft, NodeId site, NodeId c, Signed transposed, const Factors& factors) {
  NodeId product = draft.map(Op::Mul, {c, transposed.id});
  for (const NodeId factor : factors.outer) product = draft.map(Op::Mul, {product, factor});
  if (transposed.negative) product = draft.map(Op::Neg, {product});
  Node reduce = draft.at(site);
  reduce.args = {product};
  reduce.name.clear();
  return draft.add(std::move(reduce));
}

Candidates moved_inner_product(Draft& draft, NodeId site) {
  const Node node = draft.at(site);
  if (node.kind != NodeKind::Reduce || node.reduction != Reduction::Sum || node.axis != Axis::Row) return {};
  const Factors factors = factors_of(draft, node.args[0]);
  const NodeId size = draft.size();
  const Finder finder(draft);
  std::vector<std::pair<NodeId, Signed>> moves;
  for (NodeId c = 0; c < size && factors.inner.size() > 1; ++c) {
    if (draft.at(c).type != Type{Shape::Tile} || draft.at(c).kind == NodeKind::Store) continue;
    for (std::size_t i = 0; i < factors.inner.size(); ++i) {
      const auto v = others(finder, factors, i);
      if (!v || factors.inner[i] == c) continue;
      const auto found = Transposer(draft, finder, c, node.period).transpose(factors.inner[i], *v);
      if (found) moves.emplace_back(c, *found);
    }
  }
  Candidates candidates;
  for (const auto& [c, transposed] : moves) candidates.push_back(moved_sum(draft, site, c, transposed, factors));
  return candidates;
}

constexpr Rule kRules[] = {{"moved inner product", moved_inner_product}};

}  // namespace

std::span<const Rule> linear_rules() { return kRules; }

}  // namespace coda
