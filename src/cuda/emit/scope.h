// The names of a program in its kernel's text, and how a value is written where it is used.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cuda/emit/needs.h"
#include "cuda/emit/spec.h"
#include "cuda/emit/writer.h"

namespace coda::cuda {

/// Where a statement stands: it decides how a value of another shape is written there.
enum class Site : std::uint8_t {
  Scalars,  ///< outside all loops
  Cols,     ///< in the loop over a thread's two rows, `r`
  Rows,     ///< at one column, `col`
  Tile,     ///< in the loop over a chunk's elements, `e`
  Partner,  ///< the same, for the other member of the element's pair
};

class Scope {
 public:
  explicit Scope(const SegmentSpec& segment);

  const Program& program() const { return segment_.program; }
  const SegmentSpec& segment() const { return segment_; }

  /// Name of an operand's field of Arguments.
  const std::string& argument(int operand) const { return arguments_.at(operand); }
  const std::string& value(NodeId id) const { return values_.at(static_cast<std::size_t>(id)); }
  /// Its name where it is the entry of an element's partner.
  const std::string& partner(NodeId id) const { return partner_names_.at(id); }
  /// A name for something the text needs beside the program's values.
  std::string unique(const std::string& wanted) { return names_.unique(wanted); }

  /// "Bf16": element type of an operand.
  std::string element(int operand) const;

  /// A value as an expression at a site.
  std::string use(NodeId id, Site site) const;

  /// The expression that computes a Map or Round node at a site.
  std::string computed(const Node& node, Site site) const;

  /// Cols that Tiles, stores or selections use, and Rows that Tiles use: those a tile keeps, in the program's order.
  const std::vector<NodeId>& kept_cols() const { return kept_cols_; }
  const std::vector<NodeId>& kept_rows() const { return kept_rows_; }

  /// The pairing of the program's pairs of columns; none where it has no Split, Join or value of pairs.
  Pairing pairing() const;

  /// The nodes of a shape, in order.
  std::vector<NodeId> nodes(Shape shape) const;

 private:
  bool is_kept(NodeId id, Shape shape) const;
  bool has_partner(NodeId id) const { return partners_[static_cast<std::size_t>(id)]; }

  const SegmentSpec& segment_;
  Names names_, argument_names_;
  std::map<int, std::string> arguments_;
  std::vector<std::string> values_;
  std::vector<NodeId> kept_cols_, kept_rows_;
  NodeSet partners_;
  std::map<NodeId, std::string> partner_names_;
};

bool is_computed(const Node& node);

}  // namespace coda::cuda
