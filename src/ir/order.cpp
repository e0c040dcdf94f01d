#include "ir/order.h"

#include <algorithm>
#include <vector>

namespace coda {
namespace {

constexpr NodeId kUnplaced = -1;

class Orderer {
 public:
  explicit Orderer(const Program::Data& from)
      : from_(from), node_place_(from.nodes.size(), kUnplaced), operand_place_(from.operands.size(), kUnplaced) {
    to_.name = from.name;
  }

  Program::Data run() {
    for (std::size_t i = 0; i < from_.nodes.size(); ++i)
      if (from_.nodes[i].kind == NodeKind::Store) place_with_arguments(static_cast<NodeId>(i));
    // What no store needs stays, last: dropping it is simplify's decision.
    for (std::size_t i = 0; i < from_.nodes.size(); ++i) place_with_arguments(static_cast<NodeId>(i));
    for (std::size_t i = 0; i < from_.operands.size(); ++i) place_operand(static_cast<int>(i));
    return std::move(to_);
  }

 private:
  // With a stack of its own: a chain of nodes may be longer than the call stack is deep.
  void place_with_arguments(NodeId root) {
    std::vector<NodeId> waiting{root};
    while (!waiting.empty()) {
      const NodeId id = waiting.back();
      if (node_place_[index(id)] != kUnplaced) {
        waiting.pop_back();
        continue;
      }
      const auto& args = from_.nodes[index(id)].args;
      const auto missing =
          std::find_if(args.begin(), args.end(), [&](NodeId arg) { return node_place_[index(arg)] == kUnplaced; });
      if (missing != args.end()) {
        waiting.push_back(*missing);
        continue;
      }
      place(id);
      waiting.pop_back();
    }
  }

  void place(NodeId id) {
    Node node = from_.nodes[index(id)];
    for (NodeId& arg : node.args) arg = node_place_[index(arg)];
    if (node.kind == NodeKind::Load || node.kind == NodeKind::Store) node.index = place_operand(node.index);
    node_place_[index(id)] = static_cast<NodeId>(to_.nodes.size());
    to_.nodes.push_back(std::move(node));
  }

  int place_operand(int operand) {
    NodeId& place = operand_place_[index(operand)];
    if (place == kUnplaced) {
      place = static_cast<NodeId>(to_.operands.size());
      to_.operands.push_back(from_.operands[index(operand)]);
    }
    return place;
  }

  static std::size_t index(NodeId id) { return static_cast<std::size_t>(id); }

  const Program::Data& from_;
  Program::Data to_;
  std::vector<NodeId> node_place_;
  std::vector<NodeId> operand_place_;
};

}  // namespace

Program::Data in_order_of_stores(const Program::Data& data) { return Orderer(data).run(); }

}  // namespace coda
