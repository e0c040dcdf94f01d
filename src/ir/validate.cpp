#include "ir/validate.h"

#include <set>
#include <string>

#include "core/check.h"

namespace coda {
namespace {

constexpr std::int64_t kMaxPeriod = 1 << 20;  // columns; wide enough for any head, small enough for their multiples
constexpr std::int64_t kPartialGranule = 64;  // columns or rows: the narrowest tile a kernel makes

// Checks the node that `data`, `node` describe; every message starts with program and node kind.
class NodeChecker {
 public:
  NodeChecker(const Program::Data& data, const Node& node) : data_(data), node_(node) {}

  Type infer() const {
    check_arguments();
    switch (node_.kind) {
      case NodeKind::Acc: return accumulator();
      case NodeKind::Const: return {Shape::Scalar};
      case NodeKind::Load: return load();
      case NodeKind::Index: return index();
      case NodeKind::Map: return map();
      case NodeKind::Split: return split();
      case NodeKind::Join: return join();
      case NodeKind::SpanReduce: return span_reduce();
      case NodeKind::Reduce: return reduce();
      case NodeKind::Round: return round();
      case NodeKind::SelectCol: return select_col();
      case NodeKind::Store: return store();
    }
    INVARIANT(false, "node kind ", static_cast<int>(node_.kind));
  }

 private:
  std::string where() const { return concat("program '", data_.name, "': ", name_of(node_), ": "); }
  const Type& type_of(std::size_t arg) const { return data_.nodes[static_cast<std::size_t>(node_.args[arg])].type; }

  void check_arguments() const {
    const auto [least, most] = arity();
    const auto got = static_cast<int>(node_.args.size());
    REQUIRE(ValueError, least <= got && got <= most, where(), "got ", got, " arguments, expected ", least,
            most > least ? concat(" or ", most) : "");
    for (std::size_t i = 0; i < node_.args.size(); ++i) {
      REQUIRE(ValueError, node_.args[i] >= 0 && node_.args[i] < static_cast<NodeId>(data_.nodes.size()), where(),
              "argument ", i + 1, " does not exist yet; values must be defined before they are used");
      const Node& source = data_.nodes[static_cast<std::size_t>(node_.args[i])];
      REQUIRE(ValueError, source.kind != NodeKind::Store, where(), "argument ", i + 1,
              " is a store, which has no value: use what it stores");
      REQUIRE(ValueError, !source.type.partial || node_.kind == NodeKind::Store, where(), "argument ", i + 1, " is a ",
              type_text(source.type),
              ", unfinished inside this program: store it, and let the next program "
              "load it as partials");
    }
  }

  std::pair<int, int> arity() const {
    switch (node_.kind) {
      case NodeKind::Acc:
      case NodeKind::Const:
      case NodeKind::Load:
      case NodeKind::Index: return {0, 0};
      case NodeKind::Map: return {op_row(node_.op).arity, op_row(node_.op).arity};
      case NodeKind::Join: return {2, 3};
      case NodeKind::SelectCol: return {2, 2};
      case NodeKind::Split:
      case NodeKind::SpanReduce:
      case NodeKind::Reduce:
      case NodeKind::Round:
      case NodeKind::Store: return {1, 1};
    }
    INVARIANT(false, "node kind ", static_cast<int>(node_.kind));
  }

  void require_full_width(std::size_t arg, bool tile_only) const {
    const Type& type = type_of(arg);
    const bool shape_fits = type.shape == Shape::Tile || (!tile_only && type.shape == Shape::Row);
    REQUIRE(ValueError, shape_fits && type.pairing.is_none(), where(), "argument ", arg + 1, " is a ", type_text(type),
            ", expected a ", tile_only ? "tile" : "tile or row", " of full width",
            type.pairing.is_none() ? "" : ": join it first");
  }

  void check_pairing(const Pairing& pairing) const {
    REQUIRE(ValueError, !pairing.is_none(), where(), "got no pairing, expected halves or interleaved");
    REQUIRE(ValueError, 0 < pairing.head && pairing.head <= kMaxPeriod, where(), "got head width ", pairing.head,
            ", expected 1 to ", kMaxPeriod, " columns");
    REQUIRE(ValueError, 0 < pairing.width && pairing.width <= pairing.head && pairing.width % 2 == 0, where(),
            "got paired width ", pairing.width, " of head width ", pairing.head,
            ", expected an even number of columns, at most the head");
  }

  void check_period(std::int64_t period, std::int64_t least, std::string_view what) const {
    REQUIRE(ValueError, least <= period && period <= kMaxPeriod, where(), "got ", what, " ", period, ", expected ",
            least, " to ", kMaxPeriod);
  }

  Type accumulator() const {
    REQUIRE(ValueError, node_.index == 0 || node_.index == 1, where(), "got accumulator ", node_.index,
            ", expected 0, or 1 for the second matrix of a pair");
    return {Shape::Tile};
  }

  const Operand& operand() const {
    REQUIRE(ValueError, node_.index >= 0 && node_.index < static_cast<int>(data_.operands.size()), where(),
            "got operand ", node_.index, " of ", data_.operands.size());
    return data_.operands[static_cast<std::size_t>(node_.index)];
  }

  Type load() const {
    const Operand& from = operand();
    REQUIRE(ValueError, from.role == Role::Input, where(), "operand '", from.name,
            "' is an output, expected an input: outputs are write-only; use the stored value instead");
    if (from.partials) return {from.partials->axis == Axis::Row ? Shape::Col : Shape::Row};
    return {from.shape, from.pairing};
  }

  Type index() const {
    if (node_.axis == Axis::Col) {
      REQUIRE(ValueError, node_.pairing.is_none() && node_.period == 0, where(),
              "row numbers take no period and no pairing; only column numbers repeat");
      return {Shape::Col};
    }
    check_period(node_.period, 0, "period");
    if (!node_.pairing.is_none()) check_pairing(node_.pairing);
    return {Shape::Row, node_.pairing};
  }

  Type map() const {
    Type result = type_of(0);
    for (std::size_t i = 1; i < node_.args.size(); ++i) result = broadcast(result, i);
    return result;
  }

  Type broadcast(const Type& left, std::size_t arg) const {
    const Type& right = type_of(arg);
    const auto spans_columns = [](const Type& t) { return t.shape == Shape::Tile || t.shape == Shape::Row; };
    const auto spans_rows = [](const Type& t) { return t.shape == Shape::Tile || t.shape == Shape::Col; };
    if (spans_columns(left) && spans_columns(right))
      REQUIRE(ValueError, left.pairing == right.pairing, where(), "argument ", arg + 1, " is a ", type_text(right),
              ", expected the columns of the others, a ", type_text(left), ": split both the same way, or join them");
    const bool columns = spans_columns(left) || spans_columns(right);
    const bool rows = spans_rows(left) || spans_rows(right);
    const Pairing pairing = spans_columns(left) ? left.pairing : right.pairing;
    if (columns) return {rows ? Shape::Tile : Shape::Row, pairing};
    return {rows ? Shape::Col : Shape::Scalar};
  }

  Type split() const {
    require_full_width(0, false);
    check_pairing(node_.pairing);
    REQUIRE(ValueError, node_.index == 0 || node_.index == 1, where(), "got member ", node_.index, ", expected 0 or 1");
    return {type_of(0).shape, node_.pairing};
  }

  Type join() const {
    REQUIRE(ValueError, !type_of(0).pairing.is_none(), where(), "argument 1 is a ", type_text(type_of(0)),
            ", expected a member of a pairing: split it first");
    check_pairing(node_.pairing);
    Shape shape = Shape::Row;
    for (std::size_t i = 0; i < 2; ++i) {
      REQUIRE(ValueError, type_of(i).pairing == node_.pairing, where(), "argument ", i + 1, " is a ",
              type_text(type_of(i)), ", expected a member of ", pairing_text(node_.pairing));
      if (type_of(i).shape == Shape::Tile) shape = Shape::Tile;
    }
    if (!node_.pairing.has_rest()) {
      REQUIRE(ValueError, node_.args.size() == 2, where(), "got a rest, but ", pairing_text(node_.pairing),
              " pairs every column: leave it out");
      return {shape};
    }
    REQUIRE(ValueError, node_.args.size() == 3, where(), "got no rest, but ", pairing_text(node_.pairing), " leaves ",
            node_.pairing.head - node_.pairing.width, " columns of each head unpaired: give the value they come from");
    require_full_width(2, false);
    return {type_of(2).shape == Shape::Tile ? Shape::Tile : shape};
  }

  Type span_reduce() const {
    require_full_width(0, false);
    check_period(node_.period, 1, "span");
    return type_of(0);
  }

  Type reduce() const {
    require_full_width(0, true);
    REQUIRE(ValueError, node_.period > 0 && node_.period % kPartialGranule == 0 && node_.period <= kMaxPeriod, where(),
            "got partial width ", node_.period, ", expected a multiple of ", kPartialGranule, ", at most ", kMaxPeriod);
    return {node_.axis == Axis::Row ? Shape::Col : Shape::Row, {}, true};
  }

  Type round() const {
    REQUIRE(TypeError, !is_integer(node_.dtype), where(), "got dtype ", name_of(node_.dtype),
            ", expected a floating type");
    return type_of(0);
  }

  Type select_col() const {
    require_full_width(0, true);
    REQUIRE(ValueError, type_of(1).shape == Shape::Col, where(), "argument 2 is a ", type_text(type_of(1)),
            ", expected a col: one column number for each row");
    return {Shape::Col, {}, true};
  }

  Type store() const {
    const Operand& to = operand();
    REQUIRE(ValueError, to.role != Role::Input, where(), "operand '", to.name, "' is an input, expected an output");
    const Node& source = data_.nodes[static_cast<std::size_t>(node_.args[0])];
    const bool reduced = source.kind == NodeKind::Reduce;
    REQUIRE(ValueError, reduced == to.partials.has_value(), where(), "operand '", to.name,
            reduced ? "' is whole, expected partials: it stores a partial reduction"
                    : "' is partials, expected a whole value: only a reduce is stored as partials");
    REQUIRE(ValueError, source.type.shape == to.shape && source.type.pairing == to.pairing, where(), "operand '",
            to.name, "' is a ", type_text({to.shape, to.pairing}), ", but the value is a ", type_text(source.type));
    if (reduced)
      REQUIRE(ValueError, *to.partials == (Partials{source.reduction, source.axis, source.period}), where(),
              "operand '", to.name, "' holds other partials than the reduce makes");
    REQUIRE(NotImplementedError, !source.type.partial || to.role == Role::Output, where(), "operand '", to.name,
            "' accumulates, but a partial value can only be written: store it and add the results");
    return source.type;
  }

  const Program::Data& data_;
  const Node& node_;
};

void check_pairing_of(const Program::Data& data, const Operand& operand) {
  const Pairing& pairing = operand.pairing;
  if (pairing.is_none()) {
    REQUIRE(ValueError, pairing.head == 0 && pairing.width == 0, "program '", data.name, "': operand '", operand.name,
            "' has a head but no pairing");
    return;
  }
  REQUIRE(ValueError, operand.shape == Shape::Tile || operand.shape == Shape::Row, "program '", data.name,
          "': operand '", operand.name, "' is a ", name_of(operand.shape),
          " with a pairing, expected a tile or row: pairs are pairs of columns");
  REQUIRE(ValueError,
          0 < pairing.width && pairing.width <= pairing.head && pairing.width % 2 == 0 && pairing.head <= kMaxPeriod,
          "program '", data.name, "': operand '", operand.name, "' has paired width ", pairing.width, " of head width ",
          pairing.head, ", expected an even number of columns, at most the head");
}

void check_partials_of(const Program::Data& data, const Operand& operand) {
  const Partials& partials = *operand.partials;
  const bool open = operand.role == Role::Input && partials.width == 0;
  REQUIRE(ValueError,
          open || (partials.width > 0 && partials.width % kPartialGranule == 0 && partials.width <= kMaxPeriod),
          "program '", data.name, "': operand '", operand.name, "' has partial width ", partials.width,
          ", expected a multiple of ", kPartialGranule, ", at most ", kMaxPeriod);
  REQUIRE(ValueError, operand.shape == (partials.axis == Axis::Row ? Shape::Col : Shape::Row), "program '", data.name,
          "': operand '", operand.name, "' is a ", name_of(operand.shape), " of partials along a ",
          name_of(partials.axis), ", expected a ", partials.axis == Axis::Row ? "col" : "row");
  REQUIRE(TypeError, !operand.dtype || *operand.dtype == DType::F32 || *operand.dtype == DType::F64, "program '",
          data.name, "': operand '", operand.name, "' is partials of ", name_of(*operand.dtype), ", expected f32");
  REQUIRE(ValueError, operand.period == 0, "program '", data.name, "': operand '", operand.name,
          "' is partials with a period: partials do not repeat");
}

// The names unnamed values print under are free for them, and the others are distinct.
void check_names(const Program::Data& data) {
  REQUIRE(ValueError, is_identifier(data.name), "program: name '", data.name,
          "' is no identifier, expected letters, digits and _");
  std::set<std::string_view> seen;
  for (const Node& node : data.nodes) {
    if (node.name.empty()) continue;
    REQUIRE(ValueError, is_identifier(node.name) && !is_default_value_name(node.name), "program '", data.name,
            "': value name '", node.name,
            "' is taken or no identifier, expected letters, digits and _, not v and digits");
    REQUIRE(ValueError, seen.insert(node.name).second, "program '", data.name, "': two values are named '", node.name,
            "', expected each name once");
  }
}

}  // namespace

Type infer_type(const Program::Data& data, const Node& node) { return NodeChecker(data, node).infer(); }

void validate_operand(const Program::Data& data, const Operand& operand) {
  REQUIRE(ValueError, is_identifier(operand.name), "program '", data.name, "': operand name '", operand.name,
          "' is no identifier, expected letters, digits and _");
  check_pairing_of(data, operand);
  if (operand.partials) check_partials_of(data, operand);
  REQUIRE(ValueError, operand.period >= 0 && operand.period <= kMaxPeriod, "program '", data.name, "': operand '",
          operand.name, "' has period ", operand.period, ", expected 0 (none) to ", kMaxPeriod, " columns");
  if (operand.period == 0) return;
  REQUIRE(ValueError, operand.role == Role::Input && (operand.shape == Shape::Tile || operand.shape == Shape::Row),
          "program '", data.name, "': operand '", operand.name, "' is an ",
          operand.role == Role::Input ? "input " : "output ", name_of(operand.shape),
          " with a period, expected an input tile or row: only those repeat along the columns");
}

void validate(const Program::Data& data) {
  check_names(data);
  std::set<std::string_view> operand_names;
  for (const Operand& operand : data.operands) {
    validate_operand(data, operand);
    REQUIRE(ValueError, operand_names.insert(operand.name).second, "program '", data.name,
            "': two operands are named '", operand.name, "', expected each name once");
  }
  std::vector<int> stores(data.operands.size(), 0);
  Program::Data before{data.name, data.operands, {}};
  before.nodes.reserve(data.nodes.size());
  for (const Node& node : data.nodes) {
    const Type type = infer_type(before, node);
    REQUIRE(ValueError, type == node.type, "program '", data.name, "': ", name_of(node), ": is declared a ",
            type_text(node.type), ", but is a ", type_text(type));
    if (node.kind == NodeKind::Store) ++stores[static_cast<std::size_t>(node.index)];
    before.nodes.push_back(node);
  }
  for (std::size_t i = 0; i < stores.size(); ++i)
    REQUIRE(ValueError, stores[i] == (data.operands[i].role == Role::Input ? 0 : 1), "program '", data.name,
            "': output '", data.operands[i].name, "' is stored ", stores[i], " times, expected once");
}

}  // namespace coda
