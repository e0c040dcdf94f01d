// One sweep from the stores of a program back to its inputs: op rows and structural rules (docs/differentiation.md).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autodiff/forward_values.h"
#include "coda/build.h"

namespace coda {

/// A cotangent of a value: of each entry it is the sum of `value`, spread over `domain`, along the axes that the domain
/// has and the value's type lacks. Sums stay open until they are stored, as every rule is linear in the cotangent.
struct Flow {
  Value value{};
  Type domain{};
};

class Pullback {
 public:
  /// `wrt`: by node, whether its cotangent is wanted.
  Pullback(Builder& b, const Program& forward, ForwardValues& values, const std::vector<bool>& wrt);

  /// Whether the node depends on what is wanted.
  bool needs(NodeId id) const { return needs_[static_cast<std::size_t>(id)]; }

  /// Adds the cotangent of what a store writes, of a reduction the finished one's, and names it.
  void seed(const Node& store, const Value& cotangent);

  void run();

  /// The cotangent that reached a wanted node; nothing when none did.
  std::optional<Flow> flow(NodeId id);

  /// The sum of several, over a domain that has room for all.
  Flow sum(const std::vector<Flow>& flows);

  /// The same sums over all rows and columns of the output.
  Flow over_tile(const Flow& flow);

 private:
  /// What arrives at the members (0, 1) of a value's pairs, and at the columns that belong to no pair (2).
  struct Parts {
    Type domain{};
    Value members[3];
  };
  struct Received {
    std::vector<Flow> whole{};
    std::vector<Parts> parts{};
  };

  void receive(NodeId to, const Value& value, const Type& domain);
  void receive_part(NodeId to, int member, const Value& value, const Type& domain);
  const Operand& output_of(NodeId id) const;
  void name(NodeId id, const Value& value);

  // The rules, in rules.cpp.
  void pull(NodeId id, const Flow& flow);
  void pull_map(NodeId id, const Flow& flow);
  void pull_split(const Node& node, const Flow& flow);
  void pull_join(const Node& node, const Flow& flow);
  void pull_span_sum(const Node& node, const Flow& flow);
  void pull_reduce(NodeId id, const Flow& flow);
  void pull_select_col(const Node& node, const Flow& flow);
  Value split_of(const Flow& flow, int member, const Pairing& pairing);
  Flow joined(const Parts& parts);
  Flow over_rows(const Flow& flow);

  Builder& b_;
  const Program& forward_;
  ForwardValues& values_;
  std::vector<bool> needs_;
  std::vector<Received> received_;
  std::set<NodeId> named_;   ///< of the backward
  std::set<NodeId> seeded_;  ///< of the forward
};

}  // namespace coda
