// Cols and Rows of a program, and their names in a chunk.
#include "cuda/emit/program_emitter.h"

namespace coda::cuda {

void ProgramEmitter::emit_cols() {
  if (scope_.kept_cols().empty()) return;
  out_.line();
  out_.line("template <class Cols>");
  out_.open("__device__ __forceinline__ static void cols(const Arguments& a, const Position& at, Cols& kept)");
  emit_scalars();
  for (const NodeId id : scope_.nodes(Shape::Col)) {
    const Node& node = program_.node(id);
    if (node.kind != NodeKind::Load) continue;
    out_.line("float ", scope_.value(id), "_at[2];");
    emit_col_load(node, scope_.value(id) + "_at");
  }
  out_.margin("#pragma unroll");
  out_.open("for (int r = 0; r < 2; ++r)");
  for (const NodeId id : scope_.nodes(Shape::Col)) {
    const Node& node = program_.node(id);
    if (node.kind == NodeKind::Const) continue;
    const std::string value = node.kind == NodeKind::Load    ? scope_.value(id) + "_at[r]"
                              : node.kind == NodeKind::Index ? number_of(node)
                                                             : scope_.computed(node, Site::Cols);
    out_.line("const float ", scope_.value(id), " = ", value, ";");
  }
  for (std::size_t i = 0; i < scope_.kept_cols().size(); ++i)
    out_.line("kept[", i, "][r] = ", scope_.value(scope_.kept_cols()[i]), ";");
  out_.close();
  out_.close();
}

void ProgramEmitter::emit_col_load(const Node& node, const std::string& to) {
  const Operand& operand = program_.operand(node.index);
  const std::string& argument = scope_.argument(node.index);
  if (operand.partials)
    out_.line("finish_row<", row_reduction(operand.partials->op), ">(a.", argument, ", a.", argument, "_count, at, ",
              to, ");");
  else
    out_.line("load_col<", scope_.element(node.index), ">(a.", argument, ", at, ", to, ");");
}

std::string ProgramEmitter::number_of(const Node& node) {
  const std::string number = node.axis == Axis::Col   ? "global_row(at, r)"
                             : node.pairing.is_none() ? "col"
                                                      : "Pairs::pair_of(col)";
  return concat("static_cast<float>(", number, node.period > 0 ? concat(" % ", node.period) : "", ")");
}

void ProgramEmitter::emit_rows() {
  if (scope_.kept_rows().empty()) return;
  out_.line();
  out_.line("template <class Rows>");
  out_.open("__device__ __forceinline__ static void rows(const Arguments& a, i32 col, Rows& kept)");
  emit_scalars();
  for (const NodeId id : scope_.nodes(Shape::Row)) {
    const Node& node = program_.node(id);
    if (node.kind == NodeKind::Const) continue;
    const std::string value = node.kind == NodeKind::Load    ? row_load(node)
                              : node.kind == NodeKind::Index ? number_of(node)
                                                             : scope_.computed(node, Site::Rows);
    out_.line("const float ", scope_.value(id), " = ", value, ";");
  }
  for (std::size_t i = 0; i < scope_.kept_rows().size(); ++i)
    out_.line("kept[", i, "] = ", scope_.value(scope_.kept_rows()[i]), ";");
  out_.close();
}

std::string ProgramEmitter::row_load(const Node& node) const {
  const Operand& operand = program_.operand(node.index);
  const std::string& argument = scope_.argument(node.index);
  if (operand.partials)
    return concat("finish_column<", row_reduction(operand.partials->op), ">(a.", argument, ", a.", argument,
                  "_count, col, col < a.cols)");
  const bool pairs = !operand.pairing.is_none();
  return concat("load_entry<", scope_.element(node.index), ">(a.", argument, ", ",
                pairs ? "Pairs::pair_of(col)" : "col", operand.period > 0 ? concat(" % ", operand.period) : "",
                pairs ? ", col < a.cols && Pairs::member(col) == Member::First)" : ", col < a.cols)");
}

void ProgramEmitter::emit_kept() {
  for (std::size_t i = 0; i < scope_.kept_rows().size(); ++i) {
    const NodeId id = scope_.kept_rows()[i];
    if (!is_seen(id)) continue;
    const std::string& name = scope_.value(id);
    out_.line("float ", name, "[4];");
    if (!program_.node(id).type.pairing.is_none()) {
      out_.line("vectors.template pair_row<", i, ", Pairs>(at, ", name, ");");
      continue;
    }
    out_.line("vectors.template row<", i, ">(", name, ");");
    if (!has_partner(id)) continue;
    out_.line("float ", scope_.partner(id), "[4];");
    out_.line("vectors.template partner_row<", i, ", Pairs>(at, ", scope_.partner(id), ");");
  }
  for (std::size_t i = 0; i < scope_.kept_cols().size(); ++i)
    if (is_seen(scope_.kept_cols()[i]))
      out_.line("const float (&", scope_.value(scope_.kept_cols()[i]), ")[2] = vectors.cols[", i, "];");
}

}  // namespace coda::cuda
