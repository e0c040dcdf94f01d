#include "ir/simplify_draft.h"

#include <algorithm>
#include <bit>

#include "ir/validate.h"

namespace coda {
namespace {

bool is_commutative(Op op) { return op == Op::Add || op == Op::Mul || op == Op::Min || op == Op::Max || op == Op::Eq; }

std::int64_t work_of(const Node& node) {
  if (node.kind != NodeKind::Map) return 0;
  if (node.op == Op::Div) return 4;
  return node.op == Op::Neg || node.op == Op::Square ? 1 : 2;
}

// Copies the needed nodes of a draft into definition order, each once.
class Tidier {
 public:
  Tidier(const Program::Data& from, NodeId old, NodeId by)
      : from_(from), old_(old), by_(by), live_(from.nodes.size(), false), placed_(from.nodes.size(), -1) {
    for (std::size_t i = 0; i < from_.nodes.size(); ++i)
      if (from_.nodes[i].kind == NodeKind::Store) mark(static_cast<NodeId>(i));
  }

  // Keeps the author's order: a node moves up only when something before it has come to need it.
  std::vector<Node> nodes() {
    for (NodeId id = 0; id < static_cast<NodeId>(from_.nodes.size()); ++id) {
      const NodeId kept = now(id);
      if (!live_[index(kept)]) continue;
      place(kept);
      lend_name(placed_[index(kept)], from_.nodes[index(id)]);
    }
    return std::move(nodes_);
  }

 private:
  static std::size_t index(NodeId id) { return static_cast<std::size_t>(id); }
  NodeId now(NodeId id) const { return id == old_ ? by_ : id; }

  void mark(NodeId store) {
    std::vector<NodeId> open{store};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (live_[index(id)]) continue;
      live_[index(id)] = true;
      for (const NodeId arg : from_.nodes[index(id)].args) open.push_back(now(arg));
    }
  }

  void place(NodeId id) {
    if (placed_[index(id)] >= 0) return;
    Node node = from_.nodes[index(id)];
    for (NodeId& arg : node.args) {
      place(now(arg));
      arg = placed_[index(now(arg))];
    }
    if (node.kind != NodeKind::Store) {
      const auto [same, is_new] = known_.emplace(key_of(node), static_cast<NodeId>(nodes_.size()));
      placed_[index(id)] = same->second;
      if (!is_new) return lend_name(same->second, node);
    } else {
      placed_[index(id)] = static_cast<NodeId>(nodes_.size());
    }
    nodes_.push_back(std::move(node));
  }

  // The author's name outlives the node that bore it, unless its heir has one.
  void lend_name(NodeId heir, const Node& node) {
    Node& to = nodes_[index(heir)];
    if (to.name.empty()) to.name = node.name;
  }

  const Program::Data& from_;
  NodeId old_, by_;
  std::vector<bool> live_;
  std::vector<NodeId> placed_;
  std::map<NodeKey, NodeId> known_;
  std::vector<Node> nodes_;
};

}  // namespace

NodeKey key_of(const Node& node) {
  std::vector<NodeId> args = node.args;
  if (node.kind == NodeKind::Map && is_commutative(node.op)) std::sort(args.begin(), args.end());
  return {node.kind,         std::move(args),   node.op,
          node.axis,         node.reduction,    node.dtype,
          node.index,        node.period,       std::bit_cast<std::uint64_t>(node.value),
          node.pairing.kind, node.pairing.head, node.pairing.width,
          node.ignored};
}

Draft::Draft(Program::Data data) : data_(std::move(data)) { tidy(-1, -1); }

NodeId Draft::add(Node node) {
  node.type = infer_type(data_, node);
  data_.nodes.push_back(std::move(node));
  return size() - 1;
}

Draft Draft::replaced(NodeId old, NodeId by) const {
  Draft result = *this;
  result.tidy(old, by);
  return result;
}

void Draft::tidy(NodeId old, NodeId by) {
  data_.nodes = Tidier(data_, old, by).nodes();
  drop_unread_inputs();
  cost_ = count();
}

void Draft::drop_unread_inputs() {
  std::vector<bool> used(data_.operands.size(), false);
  const auto names_operand = [](const Node& node) {
    return node.kind == NodeKind::Load || node.kind == NodeKind::Store;
  };
  for (const Node& node : data_.nodes)
    if (names_operand(node)) used[static_cast<std::size_t>(node.index)] = true;
  std::vector<int> moved(data_.operands.size(), -1);
  std::vector<Operand> kept;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i] && data_.operands[i].role == Role::Input) continue;
    moved[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(data_.operands[i]));
  }
  data_.operands = std::move(kept);
  for (Node& node : data_.nodes)
    if (names_operand(node)) node.index = moved[static_cast<std::size_t>(node.index)];
}

std::vector<NodeId> Draft::factors(NodeId product) const {
  constexpr std::size_t kMaxFactors = 8;
  std::vector<NodeId> found{product};
  for (std::size_t i = 0; i < found.size() && found.size() < kMaxFactors;) {
    if (!is_map(found[i], Op::Mul)) {
      ++i;
      continue;
    }
    const std::vector<NodeId>& args = at(found[i]).args;
    found[i] = args[0];
    found.insert(found.begin() + static_cast<std::ptrdiff_t>(i) + 1, args[1]);
  }
  return found;
}

Cost Draft::count() const {
  Cost cost{.nodes = size()};
  std::vector<bool> in_memory(data_.nodes.size(), false);
  std::vector<std::int64_t> depth(data_.nodes.size(), 0);
  for (std::size_t i = 0; i < data_.nodes.size(); ++i) {
    const Node& node = data_.nodes[i];
    cost.work += work_of(node);
    in_memory[i] = node.kind == NodeKind::Load;
    if (node.kind == NodeKind::Store) in_memory[static_cast<std::size_t>(node.args[0])] = true;
    for (const NodeId arg : node.args) depth[i] = std::max(depth[i], depth[static_cast<std::size_t>(arg)] + 1);
    if (!(node.kind == NodeKind::Map && node.op == Op::Neg)) cost.depth += depth[i];
  }
  for (const Node& node : data_.nodes) {
    const bool row_sum = node.kind == NodeKind::Reduce && node.axis == Axis::Row && node.reduction == Reduction::Sum;
    if (!row_sum || !is_map(node.args[0], Op::Mul)) continue;
    for (const NodeId factor : factors(node.args[0]))
      if (!in_memory[static_cast<std::size_t>(factor)]) ++cost.unstored;
  }
  return cost;
}

}  // namespace coda
