#include "autodiff/remake.h"

#include "core/check.h"

namespace coda {

std::string acc_name(int index) { return concat("acc", index); }

Value load_like(Builder& b, const Operand& operand) {
  if (operand.partials) return b.load_partials(operand.name, operand.partials->op, operand.partials->axis);
  const LoadOptions options{operand.period, operand.pairing, operand.dtype};
  switch (operand.shape) {
    case Shape::Tile: return b.load_tile(operand.name, options);
    case Shape::Row: return b.load_row(operand.name, options);
    case Shape::Col: return b.load_col(operand.name, options);
    case Shape::Scalar: return b.load_scalar(operand.name, options);
  }
  INVARIANT(false, "differentiate: shape ", static_cast<int>(operand.shape));
}

Value remake(Builder& b, std::span<const Operand> operands, const Node& node, const std::vector<Value>& args) {
  switch (node.kind) {
    case NodeKind::Acc: return b.acc(node.index);
    case NodeKind::Const: return b.constant(node.value);
    case NodeKind::Load: return load_like(b, operands[static_cast<std::size_t>(node.index)]);
    case NodeKind::Index: return node.axis == Axis::Col ? b.row_index() : b.col_index(node.period, node.pairing);
    case NodeKind::Map: return map(node.op, args);
    case NodeKind::Split: {
      const auto [first, second] = split(args[0], node.pairing);
      return node.index == 0 ? first : second;
    }
    case NodeKind::Join: return join(args[0], args[1], args.size() > 2 ? args[2] : Value());
    case NodeKind::SpanReduce: return span_sum(args[0], node.period);
    case NodeKind::Round: return round_to(args[0], node.dtype);
    case NodeKind::Reduce:
    case NodeKind::SelectCol:
    case NodeKind::Store: break;
  }
  INVARIANT(false, "differentiate: node kind ", static_cast<int>(node.kind), " has no whole value");
}

Program with_single_reads(const Program& program) {
  Program::Data data{program.name(), program.data().operands, {}};
  std::map<std::pair<NodeKind, int>, NodeId> reads;
  std::vector<NodeId> placed;
  for (Node node : program.nodes()) {
    for (NodeId& arg : node.args) arg = placed[static_cast<std::size_t>(arg)];
    const auto next = static_cast<NodeId>(data.nodes.size());
    const bool is_read = node.kind == NodeKind::Acc || node.kind == NodeKind::Load;
    placed.push_back(is_read ? reads.try_emplace({node.kind, node.index}, next).first->second : next);
    if (placed.back() == next)
      data.nodes.push_back(std::move(node));
    else if (std::string& name = data.nodes[static_cast<std::size_t>(placed.back())].name; name.empty())
      name = node.name;
  }
  return Program(std::move(data));
}

Value remake_all(Builder& b, const Program::Data& data, NodeId id, std::map<NodeId, Value>& made) {
  if (made.contains(id)) return made[id];
  const Node& node = data.nodes[static_cast<std::size_t>(id)];
  std::vector<Value> args;
  for (const NodeId arg : node.args) args.push_back(remake_all(b, data, arg, made));
  const Value value = remake(b, data.operands, node, args);
  if (!node.name.empty()) value.named(node.name);
  return made[id] = value;
}

// A column number is finite, so its product with 0 is 0; a constant has no pairing.
Value zero_row(Builder& b, const Pairing& pairing) { return b.col_index(0, pairing) * 0.0; }

Value spread(Builder& b, const Value& value, const Type& type) {
  Value result = value;
  if (spans_columns(type.shape) && !spans_columns(result.type().shape)) result = result + zero_row(b, type.pairing);
  if (spans_rows(type.shape) && !spans_rows(result.type().shape)) result = result + b.row_index() * 0.0;
  INVARIANT(result.type() == type, "differentiate: a value of shape ", static_cast<int>(value.type().shape),
            " does not spread to shape ", static_cast<int>(type.shape));
  return result;
}

Value first_members(Builder& b, const Value& value, const Type& type) {
  const Value members = spread(b, value, type);
  const Value others = zero_row(b, type.pairing);
  return join(members, others, type.pairing.has_rest() ? zero_row(b, {}) : Value());
}

}  // namespace coda
