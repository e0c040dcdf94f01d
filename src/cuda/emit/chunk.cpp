// The Tiles of a program: eight elements of a thread, from their loads to their stores.
#include <algorithm>
#include <limits>

#include "cuda/emit/program_emitter.h"

namespace coda::cuda {
namespace {

std::string_view access_name(Access access) {
  return access == Access::Fours ? "Fours" : access == Access::Paired ? "Paired" : "Single";
}

}  // namespace

void ProgramEmitter::emit_chunk_parameters(const std::string& last) {
  const std::string indent(45, ' ');
  out_.line(indent, "const float (&acc0)[8], const float (&acc1)[8],");
  out_.line(indent, "const float (&partner0)[8], const float (&partner1)[8],");
  out_.open(indent, last, ")");
  emit_scalars();
  emit_kept();
}

void ProgramEmitter::emit_loads() {
  std::vector<TileLoad> loads = tile_loads();
  each_store([&](int operand, NodeId) {
    if (program_.operand(operand).role == Role::Accumulate && is_tile(operand) && !is_staged(operand))
      loads.push_back(tile_load(operand, before_[operand] = scope_.unique(program_.operand(operand).name + "_before")));
  });
  out_.line();
  out_.open("struct Loads");
  for (const TileLoad& load : loads) out_.line("float ", load.array, "[8];");
  out_.close(";");
  out_.line();
  out_.open("__device__ __forceinline__ static void load(const Arguments& a, const Position& at, Loads& own)");
  for (const TileLoad& load : loads) out_.line(load.call, "own.", load.array, ");");
  out_.close();
}

void ProgramEmitter::emit_chunk() {
  look_at(stored_nodes(program_));
  loads_ = "own.";
  emit_loads();
  out_.line();
  out_.line("template <class Vectors, class In, class Out>");
  out_.line(
      "__device__ __forceinline__ static void chunk(const Arguments& a, const Position& at, const Vectors& vectors,");
  emit_chunk_parameters("const Loads& own, const In& loaded, Out& stored, Reductions& reductions");
  emit_tiles();
  emit_tile_stores();
  out_.close();
}

std::vector<ProgramEmitter::TileLoad> ProgramEmitter::tile_loads() {
  const auto named = [&](std::map<NodeId, std::string>& names, NodeId id, const std::string& of) -> std::string& {
    std::string& name = names[id];
    return name.empty() ? name = scope_.unique(of + "_at") : name;
  };
  std::vector<TileLoad> loads;
  for (const NodeId id : scope_.nodes(Shape::Tile)) {
    const Node& node = program_.node(id);
    if (node.kind != NodeKind::Load || !is_seen(id) || staged_in_.contains(node.index)) continue;
    loads.push_back(tile_load(node.index, named(arrays_, id, scope_.value(id))));
    if (has_partner(id)) loads.push_back(partner_load(node.index, named(partner_arrays_, id, scope_.partner(id))));
  }
  return loads;
}

ProgramEmitter::TileLoad ProgramEmitter::tile_load(int operand, const std::string& name) const {
  const Operand& from = program_.operand(operand);
  const std::string_view how = from.pairing.is_none() ? access_name(access_of(operand)) : "Pairs";
  return {name, concat(from.pairing.is_none() ? "load_tile<" : "load_pair_tile<", scope_.element(operand), ", ", how,
                       ", ", from.period, ">(a.", scope_.argument(operand), ", at, ")};
}

ProgramEmitter::TileLoad ProgramEmitter::partner_load(int operand, const std::string& name) const {
  return {name, concat("load_partner_tile<", scope_.element(operand), ", ", access_name(access_of(operand)),
                       ", Pairs, ", program_.operand(operand).period, ">(a.", scope_.argument(operand), ", at, ")};
}

void ProgramEmitter::emit_tiles() {
  each_store([&](int operand, NodeId value) {
    const NodeKind kind = program_.node(value).kind;
    if (is_staged(operand) || (!is_tile(operand) && kind != NodeKind::Reduce && kind != NodeKind::SelectCol)) return;
    arrays_of_[operand] = scope_.unique(program_.operand(operand).name + "_values");
    out_.line("float ", arrays_of_[operand], "[8];");
  });
  out_.margin("#pragma unroll");
  out_.open("for (int e = 0; e < 8; ++e)");
  for (const NodeId id : scope_.nodes(Shape::Tile))
    if (is_seen(id)) emit_tile_node(id, program_.node(id));
  each_store([&](int operand, NodeId value) { emit_element_store(operand, value); });
  out_.close();
}

void ProgramEmitter::emit_tile_node(NodeId id, const Node& node) {
  const auto line = [&](const std::string& value) { out_.line("const float ", scope_.value(id), " = ", value, ";"); };
  const auto use = [&](std::size_t i) { return scope_.use(node.args[i], Site::Tile); };
  const auto partner_line = [&](const std::string& value) {
    if (has_partner(id)) out_.line("const float ", scope_.partner(id), " = ", value, ";");
  };
  if (node.kind == NodeKind::Load) {
    line(loaded(id, node.index));
    partner_line(loads_ + partner_arrays_[id] + "[e]");
  }
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
    partner_line(concat("Pairs::is_first(at, col_of(e)) ? ", use(1), " : ", use(0)));
  }
  if (!is_computed(node)) return;
  line(scope_.computed(node, Site::Tile));
  partner_line(scope_.computed(node, Site::Partner));
}

void ProgramEmitter::emit_element_store(int operand, NodeId value) {
  const Node& node = program_.node(value);
  if (node.kind == NodeKind::Reduce || node.kind == NodeKind::SelectCol) {
    out_.line(arrays_of_[operand], "[e] = ", scope_.use(node.args[0], Site::Tile), ";");
  } else if (is_tile(operand)) {
    const std::string to =
        is_staged(operand) ? concat("stored[", staged_out_.at(operand), "][e]") : arrays_of_[operand] + "[e]";
    out_.line(to, " = ", before(operand), scope_.use(value, Site::Tile), ";");
  }
}

std::string ProgramEmitter::loaded(NodeId id, int operand) const {
  const auto staged = staged_in_.find(operand);
  return staged != staged_in_.end() ? concat("loaded[", staged->second, "][e]") : loads_ + arrays_.at(id) + "[e]";
}

std::string ProgramEmitter::before(int operand) const {
  if (program_.operand(operand).role != Role::Accumulate) return "";
  const auto staged = staged_in_.find(operand);
  if (staged != staged_in_.end()) return concat("loaded[", staged->second, "][e] + ");
  return is_staged(operand) ? "" : loads_ + before_.at(operand) + "[e] + ";
}

void ProgramEmitter::emit_tile_stores() {
  each_store([&](int operand, NodeId value) {
    const NodeKind kind = program_.node(value).kind;
    if (kind == NodeKind::Reduce) {
      emit_reduction(operand, value);
    } else if (kind == NodeKind::SelectCol) {
      emit_selection(operand, value);
    } else if (!is_tile(operand)) {
      emit_vector_store(operand, value);
    } else if (!is_staged(operand)) {
      const bool pairs = !program_.operand(operand).pairing.is_none();
      out_.line(pairs ? "store_pair_tile<" : "store_tile<", scope_.element(operand), ", ",
                pairs ? "Pairs" : access_name(access_of(operand)), ">(a.", scope_.argument(operand), ", at, ",
                arrays_of_[operand], ");");
    }
  });
}

void ProgramEmitter::emit_reduction(int operand, NodeId value) {
  const Node& node = program_.node(value);
  if (node.axis == Axis::Col) {
    const auto which = std::ranges::find(columns_, value) - columns_.begin();
    out_.line("reduce_down<", column_reduction(node.reduction), ">(at, ", arrays_of_[operand],
              ", vectors.template line<", which, ">());");
    return;
  }
  out_.line("reductions.", scope_.value(value), ".add(at, ", arrays_of_[operand], ");");
  out_.line("if (at.ends(", node.period, ")) reductions.", scope_.value(value), ".store(a.", scope_.argument(operand),
            ", at, ", node.period, ");");
}

void ProgramEmitter::emit_selection(int operand, NodeId value) {
  const Node& node = program_.node(value);
  // An index that nothing is equal to stands for none.
  const double ignored = node.ignored ? static_cast<double>(*node.ignored) : std::numeric_limits<double>::quiet_NaN();
  const std::string selected = "reductions." + scope_.value(value), columns = scope_.value(node.args[1]),
                    rest =
                        concat("a.", scope_.argument(operand), ", at, ", columns, ", ", float_literal(ignored), ");");
  out_.line(selected, ".add(at, ", columns, ", ", arrays_of_[operand], ");");
  out_.line("if (at.last) ", selected, ".store(", rest);
  out_.line("store_unselected<", scope_.element(operand), ">(", rest);
}

void ProgramEmitter::emit_vector_store(int operand, NodeId value) {
  const Operand& to = program_.operand(operand);
  const bool pairs = !to.pairing.is_none();
  const std::string element =
      to.role == Role::Accumulate ? concat("Added<", scope_.element(operand), ">") : scope_.element(operand);
  const std::string_view store = to.shape == Shape::Col      ? "store_col<"
                                 : to.shape == Shape::Scalar ? "store_scalar<"
                                 : pairs                     ? "store_pair_row<"
                                                             : "store_row<";
  out_.line(store, element, pairs ? ", Pairs" : "", ">(a.", scope_.argument(operand), ", at, ",
            scope_.use(value, Site::Scalars), ");");
}

}  // namespace coda::cuda
