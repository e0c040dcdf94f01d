#include "cuda/emit/scope.h"

#include <algorithm>

#include "cuda/emit/op_spelling.h"
#include "cuda/emit/program.h"

namespace coda::cuda {

bool is_computed(const Node& node) { return node.kind == NodeKind::Map || node.kind == NodeKind::Round; }

Scope::Scope(const SegmentSpec& segment)
    : segment_(segment), partners_(wanted_of_partners(program(), all_nodes(program()))) {
  for (const int operand : matrix_operands(segment))
    arguments_[operand] = argument_names_.unique(program().operand(operand).name);
  for (NodeId id = 0; id < static_cast<NodeId>(program().nodes().size()); ++id) {
    const Node& node = program().node(id);
    const bool named = node.kind != NodeKind::Const && node.kind != NodeKind::Acc && node.kind != NodeKind::Store;
    values_.push_back(named ? names_.unique(node.name.empty() ? concat("v", id) : node.name) : "");
    if (is_kept(id, Shape::Col)) kept_cols_.push_back(id);
    if (is_kept(id, Shape::Row)) kept_rows_.push_back(id);
  }
  for (NodeId id = 0; id < static_cast<NodeId>(partners_.size()); ++id)
    if (has_partner(id) && !value(id).empty()) partner_names_[id] = names_.unique(value(id) + "_partner");
}

Pairing Scope::pairing() const {
  for (const Node& node : program().nodes())
    if (!node.pairing.is_none()) return node.pairing;
  for (const Operand& operand : program().operands())
    if (!operand.pairing.is_none()) return operand.pairing;
  return {};
}

// A value is kept for the tile when something of another shape, or a store, takes it.
bool Scope::is_kept(NodeId id, Shape shape) const {
  const Node& node = program().node(id);
  if (node.kind == NodeKind::Const || node.kind == NodeKind::Store || node.type.partial || node.type.shape != shape)
    return false;
  return std::ranges::any_of(program().nodes(), [&](const Node& user) {
    const bool elsewhere = user.kind == NodeKind::Store || user.type.partial || user.type.shape != shape;
    return elsewhere && std::ranges::find(user.args, id) != user.args.end();
  });
}

std::string Scope::element(int operand) const { return element_name(*program().operand(operand).dtype); }

std::string Scope::use(NodeId id, Site site) const {
  const Node& node = program().node(id);
  if (node.kind == NodeKind::Const) return float_literal(node.value);
  const bool partner = site == Site::Partner && has_partner(id);
  if (node.kind == NodeKind::Acc) return concat(partner ? "partner" : "acc", node.index, "[e]");
  const bool in_tile = site == Site::Tile || site == Site::Partner;
  // A head's sum is the same for both members of a pair.
  const std::string& name = partner && node.kind != NodeKind::SpanReduce ? this->partner(id) : value(id);
  if (in_tile && node.type.shape == Shape::Row) return name + "[col_of(e)]";
  if (in_tile && node.type.shape == Shape::Col) return name + "[row_of(e)]";
  return name;
}

std::string Scope::computed(const Node& node, Site site) const {
  std::vector<std::string> arguments;
  for (const NodeId arg : node.args) arguments.push_back(use(arg, site));
  if (node.kind == NodeKind::Map) return spell(node.op, arguments);
  return node.dtype == DType::F32 ? arguments[0]
                                  : concat("rounded<", element_name(node.dtype), ">(", arguments[0], ")");
}

std::vector<NodeId> Scope::nodes(Shape shape) const {
  std::vector<NodeId> found;
  for (NodeId id = 0; id < static_cast<NodeId>(program().nodes().size()); ++id) {
    const Node& node = program().node(id);
    if (node.kind != NodeKind::Store && node.type.shape == shape && !node.type.partial) found.push_back(id);
  }
  return found;
}

}  // namespace coda::cuda
