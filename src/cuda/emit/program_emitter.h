// Writes the functions of one program. Scalars are computed where they are wanted; Cols once a tile, at a thread's two
// rows; Rows once a tile, at a thread's columns, into shared memory; Tiles in chunks of eight elements.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cuda/emit/program.h"
#include "cuda/emit/scope.h"

namespace coda::cuda {

/// The device type that reduces a row so, and the one that reduces a column: LogSumExp has none.
std::string_view row_reduction(Reduction reduction);
std::string_view column_reduction(Reduction reduction);

class ProgramEmitter {
 public:
  ProgramEmitter(Writer& out, const SegmentSpec& segment);
  void emit_struct(const std::string& name);

 private:
  template <class Act>
  void each_store(Act act) const {
    for (const Node& node : program_.nodes())
      if (node.kind == NodeKind::Store) act(node.index, node.args[0]);
  }

  // program.cpp
  static void number(const std::vector<StagedOperand>& staged, std::map<int, int>& places);
  // "Elements<Bf16>;  // residual"
  std::string element_list(const std::vector<StagedOperand>& staged) const;
  void emit_arguments();
  bool reduces() const;
  void emit_reductions();
  void emit_scalars();
  std::string pairs_type() const;

  // vectors.cpp
  void emit_cols();
  void emit_col_load(const Node& node, const std::string& to);
  static std::string number_of(const Node& node);
  void emit_rows();
  std::string row_load(const Node& node) const;
  // Names of the kept vectors among `nodes`.
  void emit_kept();

  // spans.cpp
  void emit_spans();
  // One function for each sum over whole heads: its terms of a chunk.
  void emit_terms(std::size_t which);
  bool terms_have_partners() const;

  // chunk.cpp
  // The lines of a function's head after its first, which ends with `vectors`; the last of its parameters; and what
  // every such function begins with.
  void emit_chunk_parameters(const std::string& last);
  void emit_chunk();
  // What a thread loads of a Tile by itself: an array of eight, and the call that fills it.
  struct TileLoad {
    std::string array, call;
  };
  std::vector<TileLoad> tile_loads();
  // Those, and what stores that add are added to, as a struct and a function of its own, so that several chunks can be
  // read before the first is computed.
  void emit_loads();
  TileLoad tile_load(int operand, const std::string& name) const;
  TileLoad partner_load(int operand, const std::string& name) const;
  void emit_tiles();
  void emit_tile_node(NodeId id, const Node& node);
  void emit_element_store(int operand, NodeId value);
  std::string loaded(NodeId id, int operand) const;
  // What an accumulating store adds its value to; nothing where the copy engine adds.
  std::string before(int operand) const;
  void emit_tile_stores();
  void emit_reduction(int operand, NodeId value);
  void emit_selection(int operand, NodeId value);
  void emit_vector_store(int operand, NodeId value);

  // columns.cpp
  void emit_columns();

  // Narrows what a function emits to what `nodes` are, and back.
  void look_at(NodeSet nodes);
  bool is_seen(NodeId id) const { return seen_[static_cast<std::size_t>(id)]; }
  bool has_partner(NodeId id) const { return partners_[static_cast<std::size_t>(id)]; }
  Access access_of(int operand) const { return scope_.segment().access[static_cast<std::size_t>(operand)]; }
  bool is_tile(int operand) const { return program_.operand(operand).shape == Shape::Tile; }
  bool is_staged(int operand) const { return is_tile(operand) && access_of(operand) == Access::Staged; }

  Writer& out_;
  Scope scope_;
  const Program& program_;
  const std::vector<NodeId> spans_, columns_;
  std::string loads_;  // what stands before the arrays of loads where they are used
  std::map<int, std::string> before_, arrays_of_;
  std::map<NodeId, std::string> arrays_, partner_arrays_;
  std::map<int, int> staged_in_, staged_out_;
  NodeSet seen_, partners_;
};

}  // namespace coda::cuda
