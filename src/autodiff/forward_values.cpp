#include "autodiff/forward_values.h"

#include <algorithm>
#include <cmath>

#include "autodiff/remake.h"
#include "core/check.h"
#include "ir/validate.h"

namespace coda {
namespace {

// The input the backward reads an output of the forward from.
Operand as_input(const Operand& output) {
  return {.name = output.name, .shape = output.shape, .pairing = output.pairing, .dtype = output.dtype};
}

// Position of that input, which is declared if it is new.
int input_of(Program::Data& data, const Operand& output) {
  const auto found = std::find_if(data.operands.begin(), data.operands.end(),
                                  [&](const Operand& operand) { return operand.name == output.name; });
  const auto position = static_cast<int>(found - data.operands.begin());
  if (found == data.operands.end()) data.operands.push_back(as_input(output));
  return position;
}

}  // namespace

ForwardValues::ForwardValues(Builder& b, const Program& forward, const DifferentiateOptions& options)
    : b_(b),
      forward_(forward),
      stored_(forward.nodes().size(), -1),
      source_(forward.nodes().size(), Source::Unknown),
      via_(forward.nodes().size(), -1),
      values_(forward.nodes().size()) {
  find_stored(options);
  find_sources(options.recompute_acc);
}

void ForwardValues::find_stored(const DifferentiateOptions& options) {
  for (const Node& node : forward_.nodes()) {
    if (node.kind != NodeKind::Store) continue;
    const Operand& output = forward_.operand(node.index);
    if (output.role != Role::Output || output.shape != Shape::Tile) continue;
    const auto& saved = options.saved;
    if (saved && std::find(saved->begin(), saved->end(), output.name) == saved->end()) continue;
    if (std::find(options.remade.begin(), options.remade.end(), output.name) != options.remade.end()) continue;
    stored_[index(node.args[0])] = node.index;
  }
}

// A stored value is loaded only if it cannot be made from what is known without it, so the lowest ones are.
void ForwardValues::find_sources(bool recompute_acc) {
  const auto count = static_cast<NodeId>(forward_.nodes().size());
  for (NodeId id = 0; id < count; ++id)
    if (recompute_acc && forward_.node(id).kind == NodeKind::Acc) source_[index(id)] = Source::Made;
  settle();
  for (NodeId id = 0; id < count; ++id) {
    if (is_known(id) || stored_[index(id)] < 0) continue;
    source_[index(id)] = Source::Loaded;
    settle();
  }
  for (NodeId id = 0; id < count; ++id) {
    if (is_known(id) || forward_.node(id).kind != NodeKind::Acc) continue;
    source_[index(end_of_chain(id))] = Source::Missing;
    settle();
  }
}

void ForwardValues::settle() {
  const auto count = static_cast<NodeId>(forward_.nodes().size());
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId id = 0; id < count; ++id) {
      if (is_known(id) || !can_make(forward_.node(id))) continue;
      source_[index(id)] = Source::Made;
      changed = true;
    }
    for (NodeId id = 0; id < count; ++id) {
      if (!is_known(id)) continue;
      const std::vector<NodeId>& args = forward_.node(id).args;
      for (std::size_t i = 0; i < args.size(); ++i) {
        if (is_known(args[i]) || !can_invert(id, i)) continue;
        source_[index(args[i])] = Source::Inverted;
        via_[index(args[i])] = id;
        changed = true;
      }
    }
  }
}

bool ForwardValues::can_make(const Node& node) const {
  switch (node.kind) {
    case NodeKind::Acc:
    case NodeKind::Reduce:
    case NodeKind::SelectCol:
    case NodeKind::Store: return false;
    case NodeKind::Const:
    case NodeKind::Load:
    case NodeKind::Index:
    case NodeKind::Map:
    case NodeKind::Split:
    case NodeKind::Join:
    case NodeKind::SpanReduce:
    case NodeKind::Round: break;
  }
  return std::all_of(node.args.begin(), node.args.end(), [&](NodeId arg) { return is_known(arg); });
}

// Whether the argument at `position` follows from the value and the other arguments. A tile is not subtracted again: a
// residual may be so much larger than what was added to it that the stored sum has lost that.
bool ForwardValues::can_invert(NodeId id, std::size_t position) const {
  const Node& node = forward_.node(id);
  if (node.kind != NodeKind::Map || node.type != forward_.node(node.args[position]).type) return false;
  if (node.op == Op::Neg) return true;
  if (node.args.size() != 2 || !is_known(node.args[1 - position])) return false;
  const NodeId other = node.args[1 - position];
  const Shape shape = forward_.node(other).type.shape;
  if (node.op == Op::Add || node.op == Op::Sub) return shape != Shape::Tile;
  const bool is_scaled = node.op == Op::Mul || (node.op == Op::Div && position == 0);
  return is_scaled && !spans_columns(shape) && is_never_zero(other);
}

bool ForwardValues::is_never_zero(NodeId id) const {
  constexpr Op kPositive[] = {Op::Exp, Op::Exp2, Op::Rsqrt, Op::Sigmoid};
  constexpr Op kZeroOnlyWhereArgumentsAre[] = {Op::Mul, Op::Div, Op::Neg, Op::Abs, Op::Rcp, Op::Sqrt, Op::Square};
  const Node& node = forward_.node(id);
  const auto is_one_of = [&](const auto& ops) {
    return std::find(std::begin(ops), std::end(ops), node.op) != std::end(ops);
  };
  if (node.kind == NodeKind::Const) return std::isfinite(node.value) && node.value != 0;
  if (node.kind != NodeKind::Map) return false;
  if (is_one_of(kPositive)) return true;
  return is_one_of(kZeroOnlyWhereArgumentsAre) &&
         std::all_of(node.args.begin(), node.args.end(), [&](NodeId arg) { return is_never_zero(arg); });
}

NodeId ForwardValues::end_of_chain(NodeId acc) const {
  NodeId end = acc, named = -1;
  const auto leads_on = [&](NodeId id) {
    const std::vector<NodeId>& args = forward_.node(id).args;
    for (std::size_t i = 0; i < args.size(); ++i)
      if (args[i] == end && !is_known(id) && can_invert(id, i)) return true;
    return false;
  };
  for (NodeId id = acc; id < static_cast<NodeId>(forward_.nodes().size()); ++id) {
    if (id != acc && !leads_on(id)) continue;
    end = id;
    if (!forward_.node(id).name.empty()) named = id;
  }
  return named >= 0 ? named : end;
}

Value ForwardValues::of(NodeId id) {
  if (values_[index(id)]) return values_[index(id)];
  const Node& node = forward_.node(id);
  Value value;
  switch (source_[index(id)]) {
    case Source::Unknown: INVARIANT(false, "differentiate: node ", id, " has no source in\n", to_text(forward_));
    case Source::Made: value = make(id); break;
    case Source::Loaded: value = load_stored(id); break;
    case Source::Inverted: value = invert(id); break;
    case Source::Missing: {
      const std::string operand = concat("unsaved_", id);
      missing_[operand] = id;
      value = load_like(b_, {.name = operand, .shape = node.type.shape, .pairing = node.type.pairing});
      break;
    }
  }
  if (!node.name.empty()) value.named(node.name);
  return values_[index(id)] = value;
}

Value ForwardValues::make(NodeId id) {
  const Node& node = forward_.node(id);
  std::vector<Value> args;
  for (const NodeId arg : node.args) args.push_back(of(arg));
  return remake(b_, forward_.operands(), node, args);
}

Value ForwardValues::invert(NodeId id) {
  const NodeId user = via_[index(id)];
  const Node& node = forward_.node(user);
  const Value result = of(user);
  if (node.op == Op::Neg) return -result;
  const bool is_first = node.args[0] == id;
  const Value other = of(node.args[is_first ? 1 : 0]);
  if (node.op == Op::Add) return result - other;
  if (node.op == Op::Sub) return is_first ? result + other : other - result;
  return node.op == Op::Mul ? result / other : result * other;
}

Value ForwardValues::load_stored(NodeId id) { return load_like(b_, as_input(forward_.operand(stored_[index(id)]))); }

void ForwardValues::store_again(const std::string& output) {
  for (const Node& node : forward_.nodes())
    if (node.kind == NodeKind::Store && forward_.operand(node.index).name == output)
      b_.store(output, of(node.args[0]), {.dtype = forward_.operand(node.index).dtype});
}

std::vector<bool> ForwardValues::depends_on_missing() const {
  std::vector<bool> depends(source_.size(), false);
  for (NodeId id = 0; id < static_cast<NodeId>(source_.size()); ++id) {
    const std::vector<NodeId>& args = forward_.node(id).args;
    depends[index(id)] = source_[index(id)] == Source::Missing ||
                         std::any_of(args.begin(), args.end(), [&](NodeId arg) { return depends[index(arg)]; });
  }
  return depends;
}

void ForwardValues::store_remade() {
  if (missing_.empty()) return;
  const std::vector<bool> depends = depends_on_missing();
  for (NodeId id = 0; id < static_cast<NodeId>(source_.size()); ++id) {
    if (source_[index(id)] != Source::Loaded || !depends[index(id)]) continue;
    const std::string& output = forward_.operand(stored_[index(id)]).name;
    const std::string temporary = "remade_" + output;
    remade_[temporary] = output;
    const Value value = make(id);
    b_.store(temporary, forward_.node(id).name.empty() ? value : value.named(forward_.node(id).name));
  }
}

Program ForwardValues::load_remade(const Program& program) const {
  if (remade_.empty()) return program;
  const auto output_of = [&](const Node& node) -> const std::string* {
    if (node.kind != NodeKind::Store) return nullptr;
    const auto found = remade_.find(program.operand(node.index).name);
    return found == remade_.end() ? nullptr : &found->second;
  };
  std::map<NodeId, const Operand*> loaded;
  for (const Node& node : program.nodes())
    if (const std::string* output = output_of(node))
      loaded[node.args[0]] = &forward_.operand(forward_.find_operand(*output));
  Program::Data data{program.name(), {}, {}};
  std::vector<int> moved;
  for (const Operand& operand : program.operands()) {
    moved.push_back(static_cast<int>(data.operands.size()));
    if (!remade_.contains(operand.name)) data.operands.push_back(operand);
  }
  std::vector<NodeId> placed;
  for (NodeId id = 0; id < static_cast<NodeId>(program.nodes().size()); ++id) {
    Node node = program.node(id);
    placed.push_back(static_cast<NodeId>(data.nodes.size()));
    if (output_of(node)) continue;
    for (NodeId& arg : node.args) arg = placed[index(arg)];
    if (node.kind == NodeKind::Load || node.kind == NodeKind::Store) node.index = moved[index(node.index)];
    if (const auto found = loaded.find(id); found != loaded.end())
      node = {.kind = NodeKind::Load, .type = node.type, .index = input_of(data, *found->second), .name = node.name};
    data.nodes.push_back(std::move(node));
  }
  return Program(std::move(data));
}

std::optional<NodeId> ForwardValues::missing(const Program& program) const {
  for (const auto& [operand, id] : missing_)
    if (program.find_operand(operand) >= 0) return id;
  return {};
}

}  // namespace coda
