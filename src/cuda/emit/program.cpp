#include "cuda/emit/program.h"

#include <algorithm>
#include <limits>
#include <map>

#include "cuda/emit/scope.h"

namespace coda::cuda {
namespace {

std::string_view access_name(Access access) { return access == Access::Paired ? "Paired" : "Single"; }

std::string_view reduction_type(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum: return "RowSum";
    case Reduction::Max: return "RowMax";
    case Reduction::LogSumExp: return "RowLogSumExp";
  }
  INVARIANT(false, "reduction ", static_cast<int>(reduction));
}

// Writes the functions of one program. Scalars are computed where they are wanted; Cols once a tile, at a thread's two
// rows; Rows once a tile, at a thread's columns, into shared memory; Tiles in chunks of eight elements.
class ProgramEmitter {
 public:
  ProgramEmitter(Writer& out, const SegmentSpec& segment) : out_(out), scope_(segment), program_(segment.program) {
    number(staged_inputs(segment), staged_in_);
    number(staged_outputs(segment), staged_out_);
    for (NodeId id = 0; id < static_cast<NodeId>(program_.nodes().size()); ++id)
      if (program_.node(id).kind == NodeKind::SpanReduce) spans_.push_back(id);
  }

  void emit_struct(const std::string& name) {
    const SegmentSpec& segment = scope_.segment();
    out_.open("struct ", name);
    out_.line("using StagedInputs = ", element_list(staged_inputs(segment)));
    out_.line("using StagedOutputs = ", element_list(staged_outputs(segment)));
    out_.line("using Pairs = ", pairs_type(), ";");
    out_.line("static constexpr int kCols = ", scope_.kept_cols().size(), ", kRows = ", scope_.kept_rows().size(), ";");
    out_.line("static constexpr int kSpans = ", spans_.size(),
              ", kSpanHead = ", spans_.empty() ? 64 : program_.node(spans_[0]).period, ";");
    out_.line("static constexpr bool kReduces = ", reduces() ? "true" : "false", ";");
    emit_arguments();
    emit_reductions();
    emit_cols();
    emit_rows();
    emit_spans();
    emit_chunk();
    out_.close(";");
  }

 private:
  static void number(const std::vector<StagedOperand>& staged, std::map<int, int>& places) {
    for (const StagedOperand& operand : staged) places.emplace(operand.operand, static_cast<int>(places.size()));
  }

  // "Elements<Bf16>;  // residual"
  std::string element_list(const std::vector<StagedOperand>& staged) const {
    std::string elements, names;
    for (const StagedOperand& operand : staged) {
      const std::string element = element_name(operand.dtype);
      elements += concat(elements.empty() ? "" : ", ", operand.adds ? concat("Added<", element, ">") : element);
      names += " " + program_.operand(operand.operand).name;
    }
    return concat("Elements<", elements, ">;", names.empty() ? "" : "  //" + names);
  }

  void emit_arguments() {
    out_.line();
    out_.open("struct Arguments");
    out_.line("i32 rows, cols;");
    for (const int operand : counted_operands(scope_.segment())) out_.line("i32 ", scope_.argument(operand), "_count;");
    for (const int operand : matrix_operands(scope_.segment())) out_.line("Matrix ", scope_.argument(operand), ";");
    out_.close(";");
  }

  template <class Act>
  void each_store(Act act) const {
    for (const Node& node : program_.nodes())
      if (node.kind == NodeKind::Store) act(node.index, node.args[0]);
  }

  bool reduces() const {
    return std::ranges::any_of(program_.nodes(), [](const Node& node) { return node.kind == NodeKind::Reduce; });
  }

  void emit_reductions() {
    out_.line();
    out_.line(
        "// What a thread has reduced of its two rows, since the last whole width of columns, and what they selected.");
    out_.open("struct Reductions");
    each_store([&](int operand, NodeId value) {
      const Node& node = program_.node(value);
      if (node.kind == NodeKind::Reduce)
        out_.line("Partial<", reduction_type(node.reduction), "> ", scope_.value(value), ";");
      if (node.kind == NodeKind::SelectCol)
        out_.line("Selected<", scope_.element(operand), "> ", scope_.value(value), ";");
    });
    out_.close(";");
  }

  void emit_scalars() {
    for (const NodeId id : scope_.nodes(Shape::Scalar)) {
      const Node& node = program_.node(id);
      if (node.kind == NodeKind::Load)
        out_.line("const float ", scope_.value(id), " = load_scalar<", scope_.element(node.index), ">(a.",
                  scope_.argument(node.index), ");");
      if (is_computed(node))
        out_.line("const float ", scope_.value(id), " = ", scope_.computed(node, Site::Scalars), ";");
    }
  }

  void emit_cols() {
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

  void emit_col_load(const Node& node, const std::string& to) {
    const Operand& operand = program_.operand(node.index);
    const std::string& argument = scope_.argument(node.index);
    if (operand.partials)
      out_.line("finish_row<", reduction_type(operand.partials->op), ">(a.", argument, ", a.", argument, "_count, at, ",
                to, ");");
    else
      out_.line("load_col<", scope_.element(node.index), ">(a.", argument, ", at, ", to, ");");
  }

  std::string pairs_type() const {
    const Pairing pairing = scope_.pairing();
    if (pairing.is_none()) return "NoPairs";
    return concat(pairing.kind == Pairing::Kind::Halves ? "Halves<" : "Interleaved<", pairing.head, ", ", pairing.width,
                  ">");
  }

  static std::string number_of(const Node& node) {
    const std::string number = node.axis == Axis::Col   ? "global_row(at, r)"
                               : node.pairing.is_none() ? "col"
                                                        : "Pairs::pair_of(col)";
    return concat("static_cast<float>(", number, node.period > 0 ? concat(" % ", node.period) : "", ")");
  }

  void emit_rows() {
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

  std::string row_load(const Node& node) const {
    const Operand& operand = program_.operand(node.index);
    const bool pairs = !operand.pairing.is_none();
    return concat("load_entry<", scope_.element(node.index), ">(a.", scope_.argument(node.index), ", ",
                  pairs ? "Pairs::pair_of(col)" : "col", operand.period > 0 ? concat(" % ", operand.period) : "",
                  pairs ? ", col < a.cols && Pairs::is_first_col(col))" : ", col < a.cols)");
  }

  // The terms of sums over whole heads.
  void emit_spans() {
    if (spans_.empty()) return;
    out_.line();
    out_.line("template <class Vectors, class Spans>");
    out_.line(
        "__device__ __forceinline__ static void spans(const Arguments& a, const Position& at, const Vectors& vectors,");
    out_.open(
        "                                             const float (&acc0)[8], const float (&acc1)[8], Spans& sums)");
    emit_scalars();
    emit_kept(false);
    out_.margin("#pragma unroll");
    out_.open("for (int e = 0; e < 8; ++e)");
    for (const NodeId id : cone_of_spans()) {
      const Node& node = program_.node(id);
      if (is_computed(node)) out_.line("const float ", scope_.value(id), " = ", scope_.computed(node, Site::Tile), ";");
    }
    for (std::size_t i = 0; i < spans_.size(); ++i)
      out_.line("sums[octet_of(at, col_of(e)) / kSpanHead][", i,
                "][row_of(e)] += ", scope_.use(program_.node(spans_[i]).args[0], Site::Tile), ";");
    out_.close();
    out_.close();
  }

  // Tiles that the terms hang on, in order.
  std::vector<NodeId> cone_of_spans() const {
    std::vector<bool> wanted(program_.nodes().size(), false);
    for (const NodeId id : spans_) wanted[static_cast<std::size_t>(program_.node(id).args[0])] = true;
    for (auto id = static_cast<NodeId>(wanted.size()) - 1; id >= 0; --id)
      if (wanted[static_cast<std::size_t>(id)])
        for (const NodeId arg : program_.node(id).args) wanted[static_cast<std::size_t>(arg)] = true;
    std::vector<NodeId> cone;
    for (const NodeId id : scope_.nodes(Shape::Tile))
      if (wanted[static_cast<std::size_t>(id)]) cone.push_back(id);
    return cone;
  }

  // Names of the kept vectors in a chunk; with the partners' and the pairs' entries where they are asked for.
  void emit_kept(bool with_pairs) {
    for (std::size_t i = 0; i < scope_.kept_rows().size(); ++i) {
      const NodeId id = scope_.kept_rows()[i];
      const std::string& name = scope_.value(id);
      if (program_.node(id).type.pairing.is_none()) {
        out_.line("float ", name, "[4];");
        out_.line("vectors.template row<", i, ">(", name, ");");
        if (!with_pairs || !scope_.has_partner(id)) continue;
        out_.line("float ", scope_.partner(id), "[4];");
        out_.line("vectors.template partner_row<", i, ", Pairs>(at, ", scope_.partner(id), ");");
      } else if (with_pairs) {
        out_.line("float ", name, "[4];");
        out_.line("vectors.template pair_row<", i, ", Pairs>(at, ", name, ");");
      }
    }
    for (std::size_t i = 0; i < scope_.kept_cols().size(); ++i)
      out_.line("const float (&", scope_.value(scope_.kept_cols()[i]), ")[2] = vectors.cols[", i, "];");
  }

  void emit_chunk() {
    out_.line();
    out_.line("template <class Vectors, class In, class Out>");
    out_.line(
        "__device__ __forceinline__ static void chunk(const Arguments& a, const Position& at, const Vectors& vectors,");
    out_.line("                                             const float (&acc0)[8], const float (&acc1)[8],");
    out_.line("                                             const float (&partner0)[8], const float (&partner1)[8],");
    out_.open("                                             const In& loaded, Out& stored, Reductions& reductions)");
    emit_scalars();
    emit_kept(true);
    emit_tile_loads();
    emit_tiles();
    emit_tile_stores();
    out_.close();
  }

  Access access_of(int operand) const { return scope_.segment().access[static_cast<std::size_t>(operand)]; }
  bool is_tile(int operand) const { return program_.operand(operand).shape == Shape::Tile; }
  bool is_staged(int operand) const { return is_tile(operand) && access_of(operand) == Access::Staged; }

  void emit_tile_loads() {
    for (const NodeId id : scope_.nodes(Shape::Tile)) {
      const Node& node = program_.node(id);
      if (node.kind != NodeKind::Load || staged_in_.contains(node.index)) continue;
      emit_tile_load(node.index, arrays_[id] = scope_.unique(scope_.value(id) + "_at"));
    }
    each_store([&](int operand, NodeId) {
      if (program_.operand(operand).role == Role::Accumulate && is_tile(operand) && !is_staged(operand))
        emit_tile_load(operand, before_[operand] = scope_.unique(program_.operand(operand).name + "_before"));
    });
  }

  void emit_tile_load(int operand, const std::string& name) {
    out_.line("float ", name, "[8];");
    if (!program_.operand(operand).pairing.is_none()) {
      out_.line("load_pair_tile<", scope_.element(operand), ", Pairs, ", program_.operand(operand).period, ">(a.",
                scope_.argument(operand), ", at, ", name, ");");
      return;
    }
    out_.line("load_tile<", scope_.element(operand), ", ", access_name(access_of(operand)), ", ",
              program_.operand(operand).period, ">(a.", scope_.argument(operand), ", at, ", name, ");");
  }

  void emit_tiles() {
    each_store([&](int operand, NodeId value) {
      const NodeKind kind = program_.node(value).kind;
      if (is_staged(operand) || (!is_tile(operand) && kind != NodeKind::Reduce && kind != NodeKind::SelectCol)) return;
      arrays_of_[operand] = scope_.unique(program_.operand(operand).name + "_values");
      out_.line("float ", arrays_of_[operand], "[8];");
    });
    out_.margin("#pragma unroll");
    out_.open("for (int e = 0; e < 8; ++e)");
    for (const NodeId id : scope_.nodes(Shape::Tile)) {
      const Node& node = program_.node(id);
      emit_tile_node(id, node);
    }
    each_store([&](int operand, NodeId value) { emit_element_store(operand, value); });
    out_.close();
  }

  void emit_tile_node(NodeId id, const Node& node) {
    const auto line = [&](const std::string& value) { out_.line("const float ", scope_.value(id), " = ", value, ";"); };
    const auto use = [&](std::size_t i) { return scope_.use(node.args[i], Site::Tile); };
    if (node.kind == NodeKind::Load) line(loaded(id, node.index));
    if (node.kind == NodeKind::SpanReduce)
      line(concat("vectors.template span<", std::ranges::find(spans_, id) - spans_.begin(), ">(at, e)"));
    if (node.kind == NodeKind::Split) {
      // Member 0 is this element where it is its pair's first, else its partner; member 1 the other.
      const std::string partner = scope_.use(node.args[0], Site::Partner);
      line(concat("Pairs::is_first(at, col_of(e)) ? ", node.index == 0 ? use(0) : partner, " : ",
                  node.index == 0 ? partner : use(0)));
    }
    if (node.kind == NodeKind::Join) {
      const std::string rest = node.args.size() > 2 ? concat("Pairs::is_rest(at, col_of(e)) ? ", use(2), " : ") : "";
      line(concat(rest, "Pairs::is_first(at, col_of(e)) ? ", use(0), " : ", use(1)));
    }
    if (!is_computed(node)) return;
    line(scope_.computed(node, Site::Tile));
    if (scope_.has_partner(id))
      out_.line("const float ", scope_.partner(id), " = ", scope_.computed(node, Site::Partner), ";");
  }

  void emit_element_store(int operand, NodeId value) {
    const Node& node = program_.node(value);
    if (node.kind == NodeKind::Reduce || node.kind == NodeKind::SelectCol) {
      out_.line(arrays_of_[operand], "[e] = ", scope_.use(node.args[0], Site::Tile), ";");
    } else if (is_tile(operand)) {
      const std::string to =
          is_staged(operand) ? concat("stored[", staged_out_.at(operand), "][e]") : arrays_of_[operand] + "[e]";
      out_.line(to, " = ", before(operand), scope_.use(value, Site::Tile), ";");
    }
  }

  std::string loaded(NodeId id, int operand) const {
    const auto staged = staged_in_.find(operand);
    return staged != staged_in_.end() ? concat("loaded[", staged->second, "][e]") : arrays_.at(id) + "[e]";
  }

  // What an accumulating store adds its value to; nothing where the copy engine adds.
  std::string before(int operand) const {
    if (program_.operand(operand).role != Role::Accumulate) return "";
    const auto staged = staged_in_.find(operand);
    if (staged != staged_in_.end()) return concat("loaded[", staged->second, "][e] + ");
    return is_staged(operand) ? "" : before_.at(operand) + "[e] + ";
  }

  void emit_tile_stores() {
    each_store([&](int operand, NodeId value) {
      const Node& node = program_.node(value);
      const std::string argument = is_staged(operand) ? "" : "a." + scope_.argument(operand);
      if (node.kind == NodeKind::Reduce) {
        out_.line("reductions.", scope_.value(value), ".add(at, ", arrays_of_[operand], ");");
        out_.line("if (at.ends(", node.period, ")) reductions.", scope_.value(value), ".store(", argument, ", at, ",
                  node.period, ");");
      } else if (node.kind == NodeKind::SelectCol) {
        // An index that nothing is equal to stands for none.
        const double ignored =
            node.ignored ? static_cast<double>(*node.ignored) : std::numeric_limits<double>::quiet_NaN();
        const std::string selected = "reductions." + scope_.value(value), columns = scope_.value(node.args[1]),
                          rest = concat(argument, ", at, ", columns, ", ", float_literal(ignored), ");");
        out_.line(selected, ".add(at, ", columns, ", ", arrays_of_[operand], ");");
        out_.line("if (at.last) ", selected, ".store(", rest);
        out_.line("store_unselected<", scope_.element(operand), ">(", rest);
      } else if (is_tile(operand) && !is_staged(operand)) {
        out_.line("store_tile<", scope_.element(operand), ", ", access_name(access_of(operand)), ">(", argument,
                  ", at, ", arrays_of_[operand], ");");
      } else if (program_.operand(operand).shape == Shape::Col) {
        out_.line("store_col<", scope_.element(operand), ">(", argument, ", at, ", scope_.value(value), ");");
      }
    });
  }

  Writer& out_;
  Scope scope_;
  const Program& program_;
  std::map<int, std::string> before_, arrays_of_;
  std::map<NodeId, std::string> arrays_;
  std::map<int, int> staged_in_, staged_out_;
  std::vector<NodeId> spans_;
};

}  // namespace

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
