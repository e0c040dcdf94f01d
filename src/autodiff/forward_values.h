// Values of the forward program in its backward: loaded, made again, or recovered from what was stored.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coda/build.h"
#include "coda/differentiate.h"

namespace coda {

class ForwardValues {
 public:
  ForwardValues(Builder& b, const Program& forward, const DifferentiateOptions& options);

  /// The value of a node. One that cannot be had is a load of an operand of its own, which `missing` finds
  /// unless nothing needs it any more once the program is simplified.
  Value of(NodeId id);

  /// Stores an output of the forward again.
  void store_again(const std::string& output);

  /// Stores each output that the backward loads, but whose making depends on a value that cannot be had, made from that
  /// value: simplify then sees how the two are related, and may need only the output.
  void store_remade();

  /// The simplified program with loads in the place of what store_remade stored.
  Program load_remade(const Program& program) const;

  /// The node of a value that the program needs and that cannot be had.
  std::optional<NodeId> missing(const Program& program) const;

 private:
  enum class Source : std::uint8_t {
    Unknown,
    Made,      ///< from its arguments, or an input
    Loaded,    ///< it is an output of the forward
    Inverted,  ///< from `via_`, a node it is an argument of
    Missing,
  };

  void find_stored(const DifferentiateOptions& options);
  void find_sources(bool recompute_acc);
  /// Marks all that can be made or inverted from what is known.
  void settle();
  bool can_make(const Node& node) const;
  bool can_invert(NodeId id, std::size_t position) const;
  bool is_never_zero(NodeId id) const;
  /// The last of the values from `acc` on that each determine the one before, of those with a name if any has one.
  NodeId end_of_chain(NodeId acc) const;

  Value make(NodeId id);
  Value invert(NodeId id);
  Value load_stored(NodeId id);
  std::vector<bool> depends_on_missing() const;

  static std::size_t index(NodeId id) { return static_cast<std::size_t>(id); }
  bool is_known(NodeId id) const { return source_[index(id)] != Source::Unknown; }

  Builder& b_;
  const Program& forward_;
  std::vector<int> stored_;  ///< by node: the output that holds it, or −1
  std::vector<Source> source_;
  std::vector<NodeId> via_;
  std::vector<Value> values_;
  std::map<std::string, NodeId> missing_;      ///< by operand
  std::map<std::string, std::string> remade_;  ///< temporary outputs: the output of the forward
};

}  // namespace coda
