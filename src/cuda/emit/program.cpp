#include "cuda/emit/program.h"

#include <algorithm>

#include "cuda/emit/program_emitter.h"

namespace coda::cuda {

std::string_view row_reduction(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum: return "RowSum";
    case Reduction::Max: return "RowMax";
    case Reduction::LogSumExp: return "RowLogSumExp";
  }
  INVARIANT(false, "reduction ", static_cast<int>(reduction));
}

std::string_view column_reduction(Reduction reduction) {
  return reduction == Reduction::Sum ? "ColumnSum" : "ColumnMax";
}

ProgramEmitter::ProgramEmitter(Writer& out, const SegmentSpec& segment)
    : out_(out),
      scope_(segment),
      program_(segment.program),
      spans_(span_sums(segment.program)),
      columns_(column_reductions(segment.program)) {
  number(staged_inputs(segment), staged_in_);
  number(staged_outputs(segment), staged_out_);
  look_at(all_nodes(program_));
}

void ProgramEmitter::look_at(NodeSet nodes) {
  partners_ = wanted_of_partners(program_, nodes);
  seen_ = std::move(nodes);
}

void ProgramEmitter::emit_struct(const std::string& name) {
  const SegmentSpec& segment = scope_.segment();
  out_.open("struct ", name);
  out_.line("using StagedInputs = ", element_list(staged_inputs(segment)));
  out_.line("using StagedOutputs = ", element_list(staged_outputs(segment)));
  out_.line("using Pairs = ", pairs_type(), ";");
  out_.line("static constexpr int kCols = ", scope_.kept_cols().size(), ", kRows = ", scope_.kept_rows().size(),
            ", kColumns = ", columns_.size(), ";");
  out_.line("static constexpr int kSpans = ", spans_.size(),
            ", kSpanHead = ", spans_.empty() ? 64 : program_.node(spans_[0]).period, ";");
  out_.line("static constexpr bool kReduces = ", reduces() ? "true" : "false", ";");
  emit_arguments();
  emit_reductions();
  emit_cols();
  emit_rows();
  emit_spans();
  emit_chunk();
  emit_columns();
  out_.close(";");
}

void ProgramEmitter::number(const std::vector<StagedOperand>& staged, std::map<int, int>& places) {
  for (const StagedOperand& operand : staged) places.emplace(operand.operand, static_cast<int>(places.size()));
}

std::string ProgramEmitter::element_list(const std::vector<StagedOperand>& staged) const {
  std::string elements, names;
  for (const StagedOperand& operand : staged) {
    const std::string element = element_name(operand.dtype);
    elements += concat(elements.empty() ? "" : ", ", operand.adds ? concat("Added<", element, ">") : element);
    names += " " + program_.operand(operand.operand).name;
  }
  return concat("Elements<", elements, ">;", names.empty() ? "" : "  //" + names);
}

void ProgramEmitter::emit_arguments() {
  out_.line();
  out_.open("struct Arguments");
  out_.line("i32 rows, cols;");
  for (const int operand : counted_operands(scope_.segment())) out_.line("i32 ", scope_.argument(operand), "_count;");
  for (const int operand : matrix_operands(scope_.segment())) out_.line("Matrix ", scope_.argument(operand), ";");
  out_.close(";");
}

bool ProgramEmitter::reduces() const {
  return std::ranges::any_of(program_.nodes(),
                             [](const Node& node) { return node.kind == NodeKind::Reduce && node.axis == Axis::Row; });
}

void ProgramEmitter::emit_reductions() {
  out_.line();
  out_.line(
      "// What a thread has reduced of its two rows, since the last whole width of columns, and what they selected.");
  out_.open("struct Reductions");
  each_store([&](int operand, NodeId value) {
    const Node& node = program_.node(value);
    if (node.kind == NodeKind::Reduce && node.axis == Axis::Row)
      out_.line("Partial<", row_reduction(node.reduction), "> ", scope_.value(value), ";");
    if (node.kind == NodeKind::SelectCol)
      out_.line("Selected<", scope_.element(operand), "> ", scope_.value(value), ";");
  });
  out_.close(";");
}

void ProgramEmitter::emit_scalars() {
  for (const NodeId id : scope_.nodes(Shape::Scalar)) {
    const Node& node = program_.node(id);
    if (node.kind == NodeKind::Load)
      out_.line("const float ", scope_.value(id), " = load_scalar<", scope_.element(node.index), ">(a.",
                scope_.argument(node.index), ");");
    if (is_computed(node))
      out_.line("const float ", scope_.value(id), " = ", scope_.computed(node, Site::Scalars), ";");
  }
}

std::string ProgramEmitter::pairs_type() const {
  const Pairing pairing = scope_.pairing();
  if (pairing.is_none()) return "NoPairs";
  return concat(pairing.kind == Pairing::Kind::Halves ? "Halves<" : "Interleaved<", pairing.head, ", ", pairing.width,
                ">");
}

std::vector<int> matrix_operands(const SegmentSpec& segment) {
  std::vector<int> operands;
  for (std::size_t i = 0; i < segment.access.size(); ++i)
    if (segment.program.operands()[i].shape != Shape::Tile || segment.access[i] != Access::Staged)
      operands.push_back(static_cast<int>(i));
  return operands;
}

std::vector<int> counted_operands(const SegmentSpec& segment) {
  std::vector<int> operands;
  for (std::size_t i = 0; i < segment.access.size(); ++i) {
    const Operand& operand = segment.program.operands()[i];
    if (operand.partials && operand.role == Role::Input) operands.push_back(static_cast<int>(i));
  }
  return operands;
}

KeptVectors kept_vectors(const SegmentSpec& segment) {
  const Scope scope(segment);
  return {static_cast<int>(scope.kept_cols().size()), static_cast<int>(scope.kept_rows().size())};
}

std::string element_name(DType dtype) {
  switch (dtype) {
    case DType::F32: return "F32";
    case DType::BF16: return "Bf16";
    case DType::F16: return "F16";
    case DType::I32: return "I32";
    case DType::I64: return "I64";
    case DType::F64: break;
  }
  INVARIANT(false, "no kernel reads ", name_of(dtype));
}

void emit_program(Writer& out, const std::string& name, const SegmentSpec& segment) {
  ProgramEmitter(out, segment).emit_struct(name);
}

}  // namespace coda::cuda
