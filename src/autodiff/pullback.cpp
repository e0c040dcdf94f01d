#include "autodiff/pullback.h"

#include <algorithm>

#include "autodiff/remake.h"
#include "core/check.h"
#include "ir/validate.h"

namespace coda {
namespace {

std::size_t index(NodeId id) { return static_cast<std::size_t>(id); }

void add(Value& sum, const Value& term) { sum = sum ? sum + term : term; }

}  // namespace

Pullback::Pullback(Builder& b, const Program& forward, ForwardValues& values, const std::vector<bool>& wrt)
    : b_(b), forward_(forward), values_(values), needs_(wrt), received_(forward.nodes().size()) {
  for (std::size_t id = 0; id < needs_.size(); ++id) {
    for (const NodeId arg : forward_.nodes()[id].args)
      if (needs(arg)) needs_[id] = true;
  }
}

void Pullback::seed(const Node& store, const Value& cotangent) {
  cotangent.named("d_" + forward_.operand(store.index).name);
  named_.insert(cotangent.id());
  seeded_.insert(store.args[0]);
  receive(store.args[0], cotangent, {store.type.shape, store.type.pairing});
}

void Pullback::receive(NodeId to, const Value& value, const Type& domain) {
  if (!value || !needs(to)) return;
  std::vector<Flow>& whole = received_[index(to)].whole;
  const auto same = std::find_if(whole.begin(), whole.end(), [&](const Flow& f) { return f.domain == domain; });
  if (same == whole.end())
    whole.push_back({value, domain});
  else
    add(same->value, value);
}

void Pullback::receive_part(NodeId to, int member, const Value& value, const Type& domain) {
  if (!needs(to)) return;
  std::vector<Parts>& parts = received_[index(to)].parts;
  auto same = std::find_if(parts.begin(), parts.end(), [&](const Parts& p) { return p.domain == domain; });
  if (same == parts.end()) same = parts.insert(parts.end(), Parts{domain, {}});
  add(same->members[member], value);
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

Flow Pullback::sum(const std::vector<Flow>& flows) {
  const Type& first = flows[0].domain;
  const auto all = [&](auto fits) { return std::all_of(flows.begin(), flows.end(), fits); };
  const bool same = all([&](const Flow& f) { return f.domain == first; });
  const bool same_columns =
      all([&](const Flow& f) { return spans_columns(f.domain.shape) && f.domain.pairing == first.pairing; });
  Flow total;
  for (const Flow& flow : flows) {
    const Flow term = same ? flow : same_columns ? over_rows(flow) : over_tile(flow);
    add(total.value, term.value);
    total.domain = term.domain;
  }
  return total;
}

std::optional<Flow> Pullback::flow(NodeId id) {
  const Received received = received_[index(id)];
  std::vector<Flow> flows = received.whole;
  for (const Parts& parts : received.parts) flows.push_back(joined(parts));
  return flows.empty() ? std::nullopt : std::optional(sum(flows));
}

void Pullback::run() {
  for (auto id = static_cast<NodeId>(forward_.nodes().size()) - 1; id >= 0; --id) {
    if (!needs(id) || forward_.node(id).kind == NodeKind::Store) continue;
    const auto total = flow(id);
    if (!total) continue;
    name(id, total->value);
    received_[index(id)] = {{*total}, {}};
    pull(id, *total);
  }
}

void Pullback::name(NodeId id, const Value& value) {
  const std::string& of = forward_.node(id).name;
  if (of.empty() || !named_.insert(value.id()).second) return;
  value.named(concat("d_", of, seeded_.contains(id) ? "_total" : ""));
}

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

const Operand& Pullback::output_of(NodeId id) const {
  for (const Node& node : forward_.nodes())
    if (node.kind == NodeKind::Store && node.args[0] == id) return forward_.operand(node.index);
  INVARIANT(false, "differentiate: node ", id, " has a cotangent but no store in\n", to_text(forward_));
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

}  // namespace coda
