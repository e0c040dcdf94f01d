// The terms of sums over whole heads.
#include "cuda/emit/program_emitter.h"

namespace coda::cuda {

bool ProgramEmitter::terms_have_partners() const {
  for (const NodeId sum : spans_) {
    const NodeSet wanted = wanted_of_partners(program_, terms_of(program_, sum));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i] && program_.node(static_cast<NodeId>(i)).kind == NodeKind::Acc) return true;
  }
  return false;
}

void ProgramEmitter::emit_spans() {
  if (spans_.empty()) return;
  out_.line();
  out_.line("// Partners that the terms of sums over heads take from the accumulators.");
  out_.line("using TermPairs = ", terms_have_partners() ? "Pairs" : "NoPairs", ";");
  for (std::size_t i = 0; i < spans_.size(); ++i) emit_terms(i);
}

void ProgramEmitter::emit_terms(std::size_t which) {
  look_at(terms_of(program_, spans_[which]));
  out_.line();
  out_.line("template <class Vectors>");
  out_.line("__device__ __forceinline__ static void terms(Constant<", which,
            ">, const Arguments& a, const Position& at, const Vectors& vectors,");
  emit_chunk_parameters("float (&terms)[8]");
  for (const TileLoad& load : tile_loads()) {
    out_.line("float ", load.array, "[8];");
    out_.line(load.call, load.array, ");");
  }
  out_.margin("#pragma unroll");
  out_.open("for (int e = 0; e < 8; ++e)");
  for (const NodeId id : scope_.nodes(Shape::Tile))
    if (is_seen(id)) emit_tile_node(id, program_.node(id));
  out_.line("terms[e] = ", scope_.use(program_.node(spans_[which]).args[0], Site::Tile), ";");
  out_.close();
  out_.close();
}

}  // namespace coda::cuda
