#include "autodiff/pullback.h"

#include <algorithm>

#include "autodiff/remake.h"
#include "core/check.h"

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

const Operand& Pullback::output_of(NodeId id) const {
  for (const Node& node : forward_.nodes())
    if (node.kind == NodeKind::Store && node.args[0] == id) return forward_.operand(node.index);
  INVARIANT(false, "differentiate: node ", id, " has a cotangent but no store in\n", to_text(forward_));
}

}  // namespace coda
