// A program under simplification: rules append nodes to it and name one to take another's place; `tidy` puts the
// result in order again.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "coda/program.h"

namespace coda {

/// What simplify makes smaller, in order of weight. A rewrite is kept only if it makes this smaller, so simplify ends,
/// never lengthens a program, and changes nothing when run again.
struct Cost {
  std::int64_t nodes = 0;
  std::int64_t work = 0;      ///< divisions weigh more, signs and squares less than other ops
  std::int64_t unstored = 0;  ///< factors of row sums that are neither loaded nor stored
  std::int64_t depth = 0;     ///< longest paths above all nodes but negations, which so move towards the stores

  auto operator<=>(const Cost&) const = default;
};

/// All that distinguishes a node from others but its name; arguments of commutative ops in ascending order.
using NodeKey = std::tuple<NodeKind, std::vector<NodeId>, Op, Axis, Reduction, DType, int, std::int64_t, std::uint64_t,
                           Pairing::Kind, std::int64_t, std::int64_t, std::optional<std::int64_t>>;
NodeKey key_of(const Node& node);

class Draft {
 public:
  /// Merges common subexpressions and drops what no store needs.
  explicit Draft(Program::Data data);

  NodeId size() const { return static_cast<NodeId>(data_.nodes.size()); }
  const Node& at(NodeId id) const { return data_.nodes[static_cast<std::size_t>(id)]; }
  const Node& arg(const Node& node, std::size_t position) const { return at(node.args[position]); }
  const Operand& operand(const Node& load) const { return data_.operands[static_cast<std::size_t>(load.index)]; }
  const Program::Data& data() const { return data_; }

  bool is_map(NodeId id, Op op) const { return at(id).kind == NodeKind::Map && at(id).op == op; }
  bool is_constant(NodeId id) const { return at(id).kind == NodeKind::Const; }
  bool is_constant(NodeId id, double value) const { return is_constant(id) && at(id).value == value; }

  /// The factors, in order, of a product of products; at most eight.
  std::vector<NodeId> factors(NodeId product) const;

  /// Appends a node, inferring its type.
  NodeId add(Node node);
  NodeId constant(double value) { return add({.kind = NodeKind::Const, .value = value}); }
  NodeId map(Op op, std::vector<NodeId> args) {
    return add({.kind = NodeKind::Map, .args = std::move(args), .op = op});
  }

  /// Drops the nodes appended since the draft had `size` nodes.
  void truncate(NodeId size) { data_.nodes.resize(static_cast<std::size_t>(size)); }

  /// This draft with `by` in the place of `old`, tidied.
  Draft replaced(NodeId old, NodeId by) const;

  /// Cost when it was last tidied: nodes appended since do not count.
  const Cost& cost() const { return cost_; }

 private:
  void tidy(NodeId old, NodeId by);
  void drop_unread_inputs();
  Cost count() const;

  Program::Data data_;
  Cost cost_;
};

}  // namespace coda
