// The structural rules: what a node makes of its cotangent, and how cotangents over two domains meet. tests/cpp/mutants
// takes them away one by one.
#include "autodiff/pullback.h"
#include "autodiff/remake.h"
#include "core/check.h"

namespace coda {

void Pullback::pull(NodeId id, const Flow& flow) {
  const Node& node = forward_.node(id);
  switch (node.kind) {
    case NodeKind::Acc:
    case NodeKind::Const:
    case NodeKind::Load:
    case NodeKind::Index:
    case NodeKind::Store: return;
    case NodeKind::Map: return pull_map(id, flow);
    case NodeKind::Split: return pull_split(node, flow);
    case NodeKind::Join: return pull_join(node, flow);
    case NodeKind::SpanReduce: return pull_span_sum(node, flow);
    case NodeKind::Reduce: return pull_reduce(id, flow);
    case NodeKind::Round: return receive(node.args[0], flow.value, flow.domain);
    case NodeKind::SelectCol: return pull_select_col(node, flow);
  }
  INVARIANT(false, "differentiate: node kind ", static_cast<int>(node.kind));
}

void Pullback::pull_map(NodeId id, const Flow& flow) {
  const Node& node = forward_.node(id);
  std::vector<Value> args;
  for (const NodeId arg : node.args) args.push_back(values_.of(arg));
  const std::vector<Value> parts = op_row(node.op).vjp(args, values_.of(id), flow.value);
  for (std::size_t i = 0; i < parts.size(); ++i) receive(node.args[i], parts[i], flow.domain);
}

void Pullback::pull_split(const Node& node, const Flow& flow) {
  receive_part(node.args[0], node.index, flow.value, flow.domain);
}

// What does not vary along the columns is the same for the members of a pair.
Value Pullback::split_of(const Flow& flow, int member, const Pairing& pairing) {
  if (!spans_columns(flow.value.type().shape)) return flow.value;
  const auto [first, second] = split(flow.value, pairing);
  return member == 0 ? first : second;
}

void Pullback::pull_join(const Node& node, const Flow& flow) {
  const Type pairs{flow.domain.shape, node.pairing};
  for (int i = 0; i < 2; ++i) receive(node.args[static_cast<std::size_t>(i)], split_of(flow, i, node.pairing), pairs);
  if (node.args.size() > 2) receive_part(node.args[2], 2, flow.value, pairs);
}

void Pullback::pull_span_sum(const Node& node, const Flow& flow) {
  const bool varies = spans_columns(flow.value.type().shape);
  const Value sum = varies ? span_sum(flow.value, node.period) : flow.value * static_cast<double>(node.period);
  receive(node.args[0], sum, flow.domain);
}

void Pullback::pull_reduce(NodeId id, const Flow& flow) {
  const Node& node = forward_.node(id);
  const Operand& output = output_of(id);
  REQUIRE(NotImplementedError, node.reduction != Reduction::Max, "differentiate: program '", forward_.name(),
          "': reduce: output '", output.name,
          "' is a maximum, whose derivative is not implemented: give it Cotangent::none");
  Value part = flow.value;
  if (node.reduction == Reduction::LogSumExp) {
    const Value finished = b_.load_partials(output.name, Reduction::LogSumExp, node.axis).named(output.name);
    const Value share = exp(values_.of(node.args[0]) - finished);
    part = part * share;
  }
  receive(node.args[0], part, {Shape::Tile});
}

void Pullback::pull_select_col(const Node& node, const Flow& flow) {
  const Value zero = b_.constant(0);
  const Value column = values_.of(node.args[1]);
  Value part = flow.value;
  if (node.ignored && *node.ignored >= 0) {
    const Value ignored = b_.constant(static_cast<double>(*node.ignored));
    part = select(equal(column, ignored), zero, part);
  }
  const Value selected = equal(b_.col_index(), column);
  receive(node.args[0], select(selected, part, zero), {Shape::Tile});
}

Flow Pullback::joined(const Parts& parts) {
  const Pairing& pairing = parts.domain.pairing;
  Value members[2];
  for (int i = 0; i < 2; ++i) {
    const Value& part = parts.members[i];
    members[i] = part ? spread(b_, part, {spans_rows(part.type().shape) ? Shape::Tile : Shape::Row, pairing})
                      : zero_row(b_, pairing);
  }
  Value rest;
  if (pairing.has_rest()) {
    rest = parts.members[2] ? parts.members[2] : zero_row(b_, {});
    rest = spread(b_, rest, {spans_rows(rest.type().shape) ? Shape::Tile : Shape::Row});
  }
  return {join(members[0], members[1], rest), {parts.domain.shape}};
}

// The same sums over more rows, or rows and columns: what has no entry for some of them stands in the first.
Flow Pullback::over_rows(const Flow& flow) {
  if (spans_rows(flow.domain.shape)) return flow;
  const Value zero = b_.constant(0);
  return {select(equal(b_.row_index(), zero), flow.value, zero), {Shape::Tile, flow.domain.pairing}};
}

Flow Pullback::over_tile(const Flow& flow) {
  Flow wide = flow;
  if (!flow.domain.pairing.is_none()) wide = {first_members(b_, flow.value, flow.domain), {flow.domain.shape}};
  if (!spans_columns(flow.domain.shape)) {
    const Value zero = b_.constant(0);
    wide.value = select(equal(b_.col_index(), zero), wide.value, zero);
    wide.domain.shape = flow.domain.shape == Shape::Col ? Shape::Tile : Shape::Row;
  }
  return over_rows(wide);
}

}  // namespace coda
