// Nodes that undo one another or choose among values: select, round, split and join.
#include "ir/simplify_rules.h"

namespace coda {
namespace {

// select(c, a, b) of a constant c, or with a = b. A NaN counts as not 0.
Candidates decided_select(Draft& draft, NodeId site) {
  if (!draft.is_map(site, Op::Select)) return {};
  const auto& args = draft.at(site).args;
  if (draft.is_constant(args[0])) return {draft.at(args[0]).value != 0 ? args[1] : args[2]};
  if (args[1] == args[2]) return {args[1]};
  return {};
}

// True when every value of `from` is a value of `to`.
bool holds(DType to, DType from) {
  if (to == DType::F64) return from != DType::I64;
  return to == from || (to == DType::F32 && (from == DType::BF16 || from == DType::F16));
}

// A rounding to what the value already is: the dtype it was loaded in or rounded to. Finished partials are no values of
// their dtype.
Candidates idle_round(Draft& draft, NodeId site) {
  const Node& node = draft.at(site);
  if (node.kind != NodeKind::Round) return {};
  const Node& source = draft.arg(node, 0);
  if (source.kind == NodeKind::Round && holds(node.dtype, source.dtype)) return {node.args[0]};
  if (source.kind != NodeKind::Load) return {};
  const Operand& operand = draft.operand(source);
  const bool idle = !operand.partials && operand.dtype && holds(node.dtype, *operand.dtype);
  return idle ? Candidates{node.args[0]} : Candidates{};
}

Candidates split_of_join(Draft& draft, NodeId site) {
  const Node& node = draft.at(site);
  if (node.kind != NodeKind::Split) return {};
  const Node& join = draft.arg(node, 0);
  if (join.kind != NodeKind::Join || join.pairing != node.pairing) return {};
  return {join.args[static_cast<std::size_t>(node.index)]};
}

bool is_member(const Node& node, int index, NodeId whole, const Pairing& pairing) {
  return node.kind == NodeKind::Split && node.index == index && node.args[0] == whole && node.pairing == pairing;
}

// join(split(x, 0), split(x, 1), x) → x; the rest of a join of the same pairing is the join's own rest.
Candidates join_of_split(Draft& draft, NodeId site) {
  const Node node = draft.at(site);
  if (node.kind != NodeKind::Join) return {};
  const Node& first = draft.arg(node, 0);
  const bool has_rest = node.args.size() == 3;
  if (first.kind == NodeKind::Split) {
    const NodeId whole = first.args[0];
    if (is_member(first, 0, whole, node.pairing) && is_member(draft.arg(node, 1), 1, whole, node.pairing) &&
        (!has_rest || node.args[2] == whole))
      return {whole};
  }
  if (!has_rest) return {};
  const Node& rest = draft.arg(node, 2);
  if (rest.kind != NodeKind::Join || rest.pairing != node.pairing) return {};
  return {
      draft.add({.kind = NodeKind::Join, .args = {node.args[0], node.args[1], rest.args[2]}, .pairing = node.pairing})};
}

constexpr Rule kRules[] = {
    {"decided select", decided_select},
    {"idle round", idle_round},
    {"split of join", split_of_join},
    {"join of split", join_of_split},
};

}  // namespace

std::span<const Rule> structure_rules() { return kRules; }

}  // namespace coda
