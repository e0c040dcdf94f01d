#include "coda/build.h"

#include <algorithm>

#include "core/check.h"
#include "ir/order.h"
#include "ir/validate.h"

namespace coda {

// The one door to a Value's insides, for the functions that make nodes.
struct BuilderAccess {
  static const std::shared_ptr<Program::Data>& graph(const Value& value) { return value.graph_; }

  // Infers the node's type, which refuses a bad node, and appends it.
  static Value append(const std::shared_ptr<Program::Data>& graph, Node node) {
    node.type = infer_type(*graph, node);
    graph->nodes.push_back(std::move(node));
    return Value(graph, static_cast<NodeId>(graph->nodes.size() - 1));
  }
};

namespace {

using Graph = std::shared_ptr<Program::Data>;

// The one graph all arguments belong to. Empty Values are skipped: only optional arguments may be empty.
Graph common_graph(std::string_view call, std::initializer_list<const Value*> values) {
  Graph graph;
  for (const Value* value : values) {
    if (!*value) continue;
    const Graph& own = BuilderAccess::graph(*value);
    REQUIRE(ValueError, graph == nullptr || graph == own, call, ": got values of programs '", graph->name, "' and '",
            own->name, "', expected values of one Builder");
    graph = own;
  }
  return graph;
}

void require_value(std::string_view call, int position, const Value& value) {
  REQUIRE(ValueError, static_cast<bool>(value), call, ": argument ", position,
          " is an empty Value, expected a value of a Builder: values must be defined before they are used");
}

int declare(Program::Data& data, Operand operand) {
  validate_operand(data, operand);
  for (std::size_t i = 0; i < data.operands.size(); ++i) {
    if (data.operands[i].name != operand.name) continue;
    REQUIRE(ValueError, data.operands[i] == operand && operand.role == Role::Input, "program '", data.name,
            "': operand '", operand.name, "' is declared twice in different ways, expected each name once");
    return static_cast<int>(i);
  }
  data.operands.push_back(std::move(operand));
  return static_cast<int>(data.operands.size() - 1);
}

Value load(const Graph& graph, const std::string& name, Shape shape, const LoadOptions& options) {
  Node node{.kind = NodeKind::Load};
  node.index = declare(*graph, {name, Role::Input, shape, options.pairing, options.period, options.dtype, {}});
  return BuilderAccess::append(graph, std::move(node));
}

Value reduce(const Value& value, Axis axis, Reduction op, std::int64_t width) {
  require_value(axis == Axis::Row ? "reduce_row" : "reduce_col", 1, value);
  Node node{.kind = NodeKind::Reduce, .args = {value.id()}, .axis = axis, .reduction = op, .period = width};
  return BuilderAccess::append(BuilderAccess::graph(value), std::move(node));
}

}  // namespace

const Type& Value::type() const {
  REQUIRE(ValueError, graph_ != nullptr, "type: the Value is empty, expected a value of a Builder");
  return graph_->nodes[static_cast<std::size_t>(id_)].type;
}

Value Value::named(const std::string& name) const {
  REQUIRE(ValueError, graph_ != nullptr, "named: the Value is empty, expected a value of a Builder");
  REQUIRE(ValueError, is_identifier(name) && !is_default_value_name(name), "named: '", name,
          "' is no name for a value, expected letters, digits and _, not v and digits");
  const auto taken = [&](const std::string& candidate) {
    for (std::size_t i = 0; i < graph_->nodes.size(); ++i)
      if (graph_->nodes[i].name == candidate && static_cast<NodeId>(i) != id_) return true;
    return false;
  };
  std::string free = name;
  for (int number = 2; taken(free); ++number) free = concat(name, "_", number);
  graph_->nodes[static_cast<std::size_t>(id_)].name = free;
  return *this;
}

Builder::Builder(std::string name) : graph_(std::make_shared<Program::Data>()) {
  REQUIRE(ValueError, is_identifier(name), "program: name '", name,
          "' is no identifier, expected letters, digits and _");
  graph_->name = std::move(name);
}

Value Builder::acc(int which) { return BuilderAccess::append(graph_, {.kind = NodeKind::Acc, .index = which}); }

Value Builder::constant(double value) {
  return BuilderAccess::append(graph_, {.kind = NodeKind::Const, .value = value});
}

Value Builder::load_tile(const std::string& operand, LoadOptions options) {
  return load(graph_, operand, Shape::Tile, options);
}
Value Builder::load_row(const std::string& operand, LoadOptions options) {
  return load(graph_, operand, Shape::Row, options);
}
Value Builder::load_col(const std::string& operand, LoadOptions options) {
  return load(graph_, operand, Shape::Col, options);
}
Value Builder::load_scalar(const std::string& operand, LoadOptions options) {
  return load(graph_, operand, Shape::Scalar, options);
}

Value Builder::load_partials(const std::string& operand, Reduction op, Axis axis) {
  Node node{.kind = NodeKind::Load};
  const Shape shape = axis == Axis::Row ? Shape::Col : Shape::Row;
  node.index = declare(*graph_, {operand, Role::Input, shape, {}, 0, {}, Partials{op, axis, 0}});
  return BuilderAccess::append(graph_, std::move(node));
}

Value Builder::row_index() { return BuilderAccess::append(graph_, {.kind = NodeKind::Index, .axis = Axis::Col}); }

Value Builder::col_index(std::int64_t period, Pairing pairing) {
  return BuilderAccess::append(graph_,
                               {.kind = NodeKind::Index, .axis = Axis::Row, .period = period, .pairing = pairing});
}

void Builder::store(const std::string& operand, const Value& value, StoreOptions options) {
  require_value(concat("program '", graph_->name, "': store '", operand, "'"), 1, value);
  REQUIRE(ValueError, BuilderAccess::graph(value) == graph_, "program '", graph_->name, "': store '", operand,
          "': the value belongs to program '", BuilderAccess::graph(value)->name,
          "', expected a value of this Builder");
  const auto& declared = graph_->operands;
  REQUIRE(
      ValueError, std::none_of(declared.begin(), declared.end(), [&](const Operand& o) { return o.name == operand; }),
      "program '", graph_->name, "': store '", operand, "': the name is taken by another operand, expected a new one");
  const Node& source = graph_->nodes[static_cast<std::size_t>(value.id())];
  Operand to{operand,
             options.accumulate ? Role::Accumulate : Role::Output,
             source.type.shape,
             source.type.pairing,
             0,
             options.dtype,
             {}};
  if (source.kind == NodeKind::Reduce) to.partials = Partials{source.reduction, source.axis, source.period};
  Node node{.kind = NodeKind::Store, .args = {value.id()}};
  node.index = declare(*graph_, std::move(to));
  BuilderAccess::append(graph_, std::move(node));
}

Program Builder::build() const {
  const auto& nodes = graph_->nodes;
  REQUIRE(ValueError, std::any_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.kind == NodeKind::Store; }),
          "program '", graph_->name,
          "': nothing is stored, expected at least one store: a program acts only through "
          "its outputs");
  return Program(in_order_of_stores(*graph_));
}

Value map(Op op, const std::vector<Value>& args) {
  const OpRow& row = op_row(op);
  REQUIRE(ValueError, static_cast<int>(args.size()) == row.arity, row.name, ": got ", args.size(),
          " arguments, expected ", row.arity);
  Node node{.kind = NodeKind::Map, .op = op};
  Graph graph;
  for (std::size_t i = 0; i < args.size(); ++i) {
    require_value(row.name, static_cast<int>(i) + 1, args[i]);
    graph = common_graph(row.name, {&args[0], &args[i]});
    node.args.push_back(args[i].id());
  }
  return BuilderAccess::append(graph, std::move(node));
}

std::pair<Value, Value> split(const Value& value, const Pairing& pairing) {
  require_value("split", 1, value);
  const auto member = [&](int index) {
    return BuilderAccess::append(BuilderAccess::graph(value),
                                 {.kind = NodeKind::Split, .args = {value.id()}, .index = index, .pairing = pairing});
  };
  const Value first = member(0);
  return {first, member(1)};
}

Value join(const Value& first, const Value& second, const Value& rest) {
  require_value("join", 1, first);
  require_value("join", 2, second);
  const Graph graph = common_graph("join", {&first, &second, &rest});
  Node node{.kind = NodeKind::Join, .args = {first.id(), second.id()}};
  node.pairing = first.type().pairing;
  if (rest) node.args.push_back(rest.id());
  return BuilderAccess::append(graph, std::move(node));
}

Value span_sum(const Value& value, std::int64_t head) {
  require_value("span_sum", 1, value);
  return BuilderAccess::append(BuilderAccess::graph(value),
                               {.kind = NodeKind::SpanReduce, .args = {value.id()}, .period = head});
}

Value reduce_row(const Value& value, Reduction op, std::int64_t width) { return reduce(value, Axis::Row, op, width); }
Value reduce_col(const Value& value, Reduction op, std::int64_t width) { return reduce(value, Axis::Col, op, width); }

Value round_to(const Value& value, DType dtype) {
  require_value("round", 1, value);
  return BuilderAccess::append(BuilderAccess::graph(value),
                               {.kind = NodeKind::Round, .args = {value.id()}, .dtype = dtype});
}

Value select_col(const Value& tile, const Value& index, std::optional<std::int64_t> ignored) {
  require_value("select_col", 1, tile);
  require_value("select_col", 2, index);
  const Graph graph = common_graph("select_col", {&tile, &index});
  return BuilderAccess::append(graph,
                               {.kind = NodeKind::SelectCol, .args = {tile.id(), index.id()}, .ignored = ignored});
}

Value constant_like(const Value& like, double value) {
  require_value("constant_like", 1, like);
  return BuilderAccess::append(BuilderAccess::graph(like), {.kind = NodeKind::Const, .value = value});
}

}  // namespace coda
