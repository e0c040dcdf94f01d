#include "cuda/emit/program.h"

#include <algorithm>
#include <map>

#include "cuda/emit/op_spelling.h"

namespace coda::cuda {
namespace {

std::string_view access_name(Access access) { return access == Access::Paired ? "Paired" : "Single"; }

// Writes the statements of one program, shape by shape: a Scalar is a float, a Row four (the thread's columns), a Col
// two (its rows), a Tile one for each turn of the loop over the chunk's elements.
class ChunkEmitter {
 public:
  ChunkEmitter(Writer& out, const SegmentSpec& segment)
      : out_(out), program_(segment.program), access_(segment.access) {
    for (const int operand : matrix_operands(segment)) arguments_[operand] = argument_names_.unique(name_of(operand));
    number(staged_inputs(segment), staged_in_);
    number(staged_outputs(segment), staged_out_);
    for (std::size_t id = 0; id < program_.nodes().size(); ++id) {
      const Node& node = program_.nodes()[id];
      if (node.kind == NodeKind::Store) continue;
      const std::string wanted = node.name.empty() ? concat("v", id) : node.name;
      names_.push_back(needs_name(node) ? values_.unique(wanted) : "");
      ids_[static_cast<NodeId>(id)] = names_.size() - 1;
    }
  }

  const std::string& argument(int operand) const { return arguments_.at(operand); }

  void emit() {
    emit_scalars();
    emit_vectors(Shape::Row, "c", 4);
    emit_vectors(Shape::Col, "r", 2);
    emit_tile_loads();
    emit_tiles();
    emit_tile_stores();
  }

 private:
  static bool needs_name(const Node& node) { return node.kind != NodeKind::Const && node.kind != NodeKind::Acc; }

  static void number(const std::vector<StagedOperand>& staged, std::map<int, int>& places) {
    for (const StagedOperand& operand : staged) places.emplace(operand.operand, static_cast<int>(places.size()));
  }

  std::string_view name_of(int operand) const { return program_.operand(operand).name; }
  std::string element_of(int operand) const { return element_name(*program_.operand(operand).dtype); }
  const std::string& value_name(NodeId id) const { return names_[ids_.at(id)]; }
  bool is(const Node& node, Shape shape) const { return node.kind != NodeKind::Store && node.type.shape == shape; }

  // A value where its entry for the current row or column (or element) is wanted.
  std::string use(NodeId id, Shape where) const {
    const Node& node = program_.node(id);
    if (node.kind == NodeKind::Const) return float_literal(node.value);
    if (node.kind == NodeKind::Acc) return concat("acc", node.index, "[e]");
    const std::string& name = value_name(id);
    if (node.type.shape == Shape::Row) return name + (where == Shape::Row ? "[c]" : "[col_of(e)]");
    if (node.type.shape == Shape::Col) return name + (where == Shape::Col ? "[r]" : "[row_of(e)]");
    return name;
  }

  std::string computed(const Node& node, Shape where) const {
    std::vector<std::string> arguments;
    for (const NodeId arg : node.args) arguments.push_back(use(arg, where));
    if (node.kind == NodeKind::Map) return spell(node.op, arguments);
    return node.dtype == DType::F32 ? arguments[0]
                                    : concat("rounded<", element_name(node.dtype), ">(", arguments[0], ")");
  }

  static bool is_computed(const Node& node) { return node.kind == NodeKind::Map || node.kind == NodeKind::Round; }

  template <class Act>
  void each(Shape shape, Act act) const {
    for (NodeId id = 0; id < static_cast<NodeId>(program_.nodes().size()); ++id)
      if (is(program_.node(id), shape)) act(id, program_.node(id));
  }

  void emit_scalars() {
    each(Shape::Scalar, [&](NodeId id, const Node& node) {
      if (node.kind == NodeKind::Load)
        out_.line("const float ", value_name(id), " = load_scalar<", element_of(node.index), ">(a.",
                  argument(node.index), ");");
      if (is_computed(node)) out_.line("const float ", value_name(id), " = ", computed(node, Shape::Scalar), ";");
    });
  }

  // Rows and Cols: loads and numbers first, then one loop over what is computed.
  void emit_vectors(Shape shape, std::string_view index, int entries) {
    bool any = false;
    each(shape, [&](NodeId id, const Node& node) {
      if (node.kind == NodeKind::Const) return;
      out_.line("float ", value_name(id), "[", entries, "];");
      if (node.kind == NodeKind::Load) emit_vector_load(id, node, shape);
      any = any || node.kind != NodeKind::Load;
    });
    if (!any) return;
    out_.margin("#pragma unroll");
    out_.open("for (int ", index, " = 0; ", index, " < ", entries, "; ++", index, ")");
    each(shape, [&](NodeId id, const Node& node) {
      if (node.kind == NodeKind::Index) out_.line(value_name(id), "[", index, "] = ", number_of(node), ";");
      if (is_computed(node)) out_.line(value_name(id), "[", index, "] = ", computed(node, shape), ";");
    });
    out_.close();
  }

  void emit_vector_load(NodeId id, const Node& node, Shape shape) {
    const Operand& operand = program_.operand(node.index);
    const std::string period = shape == Shape::Row ? concat(", ", operand.period) : "";
    out_.line(shape == Shape::Row ? "load_row<" : "load_col<", element_of(node.index), period, ">(a.",
              argument(node.index), ", at, ", value_name(id), ");");
  }

  static std::string number_of(const Node& node) {
    const std::string number = node.axis == Axis::Row ? "global_col(at, c)" : "global_row(at, r)";
    return concat("static_cast<float>(", number, node.period > 0 ? concat(" % ", node.period) : "", ")");
  }

  void emit_tile_loads() {
    each(Shape::Tile, [&](NodeId id, const Node& node) {
      if (node.kind == NodeKind::Load && !staged_in_.contains(node.index))
        emit_tile_load(node.index, loaded_[id] = values_.unique(value_name(id) + "_at"));
    });
    for_each_store([&](int operand, NodeId) {
      if (program_.operand(operand).role == Role::Accumulate && !is_staged(operand))
        emit_tile_load(operand, before_[operand] = values_.unique(concat(name_of(operand), "_before")));
    });
  }

  void emit_tile_load(int operand, const std::string& name) {
    out_.line("float ", name, "[8];");
    out_.line("load_tile<", element_of(operand), ", ", access_name(access_of(operand)), ", ",
              program_.operand(operand).period, ">(a.", argument(operand), ", at, ", name, ");");
  }

  Access access_of(int operand) const { return access_[static_cast<std::size_t>(operand)]; }
  bool is_staged(int operand) const { return access_of(operand) == Access::Staged; }

  template <class Act>
  void for_each_store(Act act) const {
    for (const Node& node : program_.nodes())
      if (node.kind == NodeKind::Store) act(node.index, node.args[0]);
  }

  void emit_tiles() {
    for_each_store([&](int operand, NodeId) {
      if (is_staged(operand)) return;
      stored_[operand] = values_.unique(concat(name_of(operand), "_values"));
      out_.line("float ", stored_[operand], "[8];");
    });
    out_.margin("#pragma unroll");
    out_.open("for (int e = 0; e < 8; ++e)");
    each(Shape::Tile, [&](NodeId id, const Node& node) {
      if (node.kind == NodeKind::Load) out_.line("const float ", value_name(id), " = ", loaded(id, node.index), ";");
      if (is_computed(node)) out_.line("const float ", value_name(id), " = ", computed(node, Shape::Tile), ";");
    });
    for_each_store([&](int operand, NodeId value) {
      const std::string to =
          is_staged(operand) ? concat("stored[", staged_out_.at(operand), "][e]") : stored_[operand] + "[e]";
      out_.line(to, " = ", before(operand), use(value, Shape::Tile), ";");
    });
    out_.close();
  }

  std::string loaded(NodeId id, int operand) const {
    const auto staged = staged_in_.find(operand);
    return staged != staged_in_.end() ? concat("loaded[", staged->second, "][e]") : loaded_.at(id) + "[e]";
  }

  // What an accumulating store adds its value to; nothing where the copy engine adds.
  std::string before(int operand) const {
    if (program_.operand(operand).role != Role::Accumulate) return "";
    const auto staged = staged_in_.find(operand);
    if (staged != staged_in_.end()) return concat("loaded[", staged->second, "][e] + ");
    return is_staged(operand) ? "" : before_.at(operand) + "[e] + ";
  }

  void emit_tile_stores() {
    for_each_store([&](int operand, NodeId) {
      if (!is_staged(operand))
        out_.line("store_tile<", element_of(operand), ", ", access_name(access_of(operand)), ">(a.", argument(operand),
                  ", at, ", stored_[operand], ");");
    });
  }

  Writer& out_;
  const Program& program_;
  const std::vector<Access>& access_;
  Names values_, argument_names_;
  std::map<int, std::string> arguments_, before_, stored_;
  std::map<int, int> staged_in_, staged_out_;
  std::vector<std::string> names_;
  std::map<NodeId, std::string> loaded_;
  std::map<NodeId, std::size_t> ids_;
};

// "Elements<Bf16>;  // residual"
std::string element_list(const SegmentSpec& segment, const std::vector<StagedOperand>& staged) {
  std::string elements, names;
  for (const StagedOperand& operand : staged) {
    const std::string element = element_name(operand.dtype);
    elements += concat(elements.empty() ? "" : ", ", operand.adds ? concat("Added<", element, ">") : element);
    names += " " + segment.program.operand(operand.operand).name;
  }
  return concat("Elements<", elements, ">;", names.empty() ? "" : "  //" + names);
}

}  // namespace

std::vector<int> matrix_operands(const SegmentSpec& segment) {
  std::vector<int> operands;
  for (std::size_t i = 0; i < segment.access.size(); ++i)
    if (segment.program.operands()[i].shape != Shape::Tile || segment.access[i] != Access::Staged)
      operands.push_back(static_cast<int>(i));
  return operands;
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
  ChunkEmitter chunk(out, segment);
  out.open("struct ", name);
  out.line("using StagedInputs = ", element_list(segment, staged_inputs(segment)));
  out.line("using StagedOutputs = ", element_list(segment, staged_outputs(segment)));
  out.line();
  out.open("struct Arguments");
  out.line("i32 rows, cols;");
  for (const int operand : matrix_operands(segment)) out.line("Matrix ", chunk.argument(operand), ";");
  out.close(";");
  out.line();
  out.line("template <class In, class Out>");
  out.line(
      "__device__ __forceinline__ static void chunk(const Arguments& a, const Position& at, const float (&acc0)[8],");
  out.open("                                             const float (&acc1)[8], const In& loaded, Out& stored)");
  chunk.emit();
  out.close();
  out.close(";");
}

}  // namespace coda::cuda
