#include "cuda/emit/needs.h"

#include "cuda/emit/scope.h"

namespace coda::cuda {
namespace {

std::size_t place(NodeId id) { return static_cast<std::size_t>(id); }

bool is_whole(const Type& type) {
  return (type.shape == Shape::Tile || type.shape == Shape::Row) && type.pairing.is_none();
}

template <class Test>
std::vector<NodeId> nodes_that(const Program& program, Test test) {
  std::vector<NodeId> found;
  for (NodeId id = 0; id < static_cast<NodeId>(program.nodes().size()); ++id)
    if (test(program.node(id))) found.push_back(id);
  return found;
}

NodeSet with_what_they_hang_on(const Program& program, NodeSet nodes) {
  for (auto id = static_cast<NodeId>(nodes.size()) - 1; id >= 0; --id) {
    if (!nodes[place(id)] || program.node(id).kind == NodeKind::SpanReduce) continue;
    for (const NodeId arg : program.node(id).args) nodes[place(arg)] = true;
  }
  return nodes;
}

std::vector<bool> inputs_among(const Program& program, const NodeSet& nodes) {
  std::vector<bool> inputs(program.operands().size(), false);
  for (NodeId id = 0; id < static_cast<NodeId>(nodes.size()); ++id) {
    const Node& node = program.node(id);
    if (node.kind == NodeKind::Load && node.type.shape == Shape::Tile && nodes[place(id)])
      inputs[static_cast<std::size_t>(node.index)] = true;
  }
  return inputs;
}

}  // namespace

NodeSet all_nodes(const Program& program) { return NodeSet(program.nodes().size(), true); }

std::vector<NodeId> span_sums(const Program& program) {
  return nodes_that(program, [](const Node& node) { return node.kind == NodeKind::SpanReduce; });
}

std::vector<NodeId> column_reductions(const Program& program) {
  return nodes_that(program, [](const Node& node) { return node.kind == NodeKind::Reduce && node.axis == Axis::Col; });
}

NodeSet terms_of(const Program& program, NodeId span_sum) {
  NodeSet terms(program.nodes().size(), false);
  terms[place(program.node(span_sum).args[0])] = true;
  return with_what_they_hang_on(program, std::move(terms));
}

NodeSet stored_nodes(const Program& program) {
  NodeSet stores(program.nodes().size(), false);
  for (std::size_t i = 0; i < stores.size(); ++i) stores[i] = program.nodes()[i].kind == NodeKind::Store;
  return with_what_they_hang_on(program, std::move(stores));
}

NodeSet wanted_of_partners(const Program& program, const NodeSet& nodes) {
  NodeSet wanted(program.nodes().size(), false);
  for (auto id = static_cast<NodeId>(wanted.size()) - 1; id >= 0; --id) {
    const Node& node = program.node(id);
    const bool passes_on =
        (node.kind == NodeKind::Split && nodes[place(id)]) || (wanted[place(id)] && is_computed(node));
    if (!passes_on) continue;
    for (const NodeId arg : node.args)
      if (is_whole(program.node(arg).type)) wanted[place(arg)] = true;
  }
  return wanted;
}

std::vector<bool> split_inputs(const Program& program) {
  return inputs_among(program, wanted_of_partners(program, all_nodes(program)));
}

std::vector<bool> reread_inputs(const Program& program) {
  NodeSet reread = wanted_of_partners(program, all_nodes(program));
  for (const NodeId sum : span_sums(program)) {
    const NodeSet terms = terms_of(program, sum);
    for (std::size_t i = 0; i < terms.size(); ++i) reread[i] = reread[i] || terms[i];
  }
  return inputs_among(program, reread);
}

}  // namespace coda::cuda
