#include "autodiff/reductions.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "autodiff/remake.h"
#include "coda/build.h"
#include "core/check.h"
#include "ir/validate.h"

namespace coda {
namespace {

NodeId append(Program::Data& data, Node node) {
  node.type = infer_type(data, node);
  data.nodes.push_back(std::move(node));
  return static_cast<NodeId>(data.nodes.size() - 1);
}

NodeId append_map(Program::Data& data, Op op, std::vector<NodeId> args) {
  return append(data, {.kind = NodeKind::Map, .args = std::move(args), .op = op});
}

const Node& node_of(const Program::Data& data, NodeId id) { return data.nodes[static_cast<std::size_t>(id)]; }

// A value as rest · Π over / Π under, where the rest varies along the axis; without a rest it is 1.
struct Factored {
  std::optional<NodeId> rest{};
  std::vector<NodeId> over{}, under{};
};

// Takes out of a and b the factors both have.
std::vector<NodeId> take_common(std::vector<NodeId>& a, std::vector<NodeId>& b) {
  std::vector<NodeId> common, own;
  for (const NodeId factor : a) {
    const auto twin = std::find(b.begin(), b.end(), factor);
    (twin == b.end() ? own : common).push_back(factor);
    if (twin != b.end()) b.erase(twin);
  }
  a = own;
  return common;
}

// Factors a tile of a program under construction, which gets the nodes of the rests.
class Factoring {
 public:
  Factoring(Program::Data& data, Axis axis) : data_(data), axis_(axis) {}

  Factored of(NodeId id) {
    const Node node = node_of(data_, id);
    const Shape constant_along = axis_ == Axis::Row ? Shape::Col : Shape::Row;
    if (node.type.shape == constant_along || node.type.shape == Shape::Scalar) return {{}, {id}, {}};
    const Factored whole{id, {}, {}};
    if (node.kind != NodeKind::Map) return whole;
    if (node.op == Op::Mul) return product(of(node.args[0]), of(node.args[1]));
    if (node.op == Op::Neg) return product(of(node.args[0]), {{}, {constant(-1)}, {}});
    if (node.op == Op::Add || node.op == Op::Sub) return sum(id, of(node.args[0]), of(node.args[1]));
    if (node.op != Op::Div) return whole;
    const Factored divisor = of(node.args[1]);
    return divisor.rest ? whole : product(of(node.args[0]), {{}, divisor.under, divisor.over});
  }

 private:
  NodeId constant(double value) { return append(data_, {.kind = NodeKind::Const, .value = value}); }

  Factored product(Factored a, const Factored& b) {
    if (a.rest && b.rest)
      a.rest = append_map(data_, Op::Mul, {*a.rest, *b.rest});
    else if (b.rest)
      a.rest = b.rest;
    a.over.insert(a.over.end(), b.over.begin(), b.over.end());
    a.under.insert(a.under.end(), b.under.begin(), b.under.end());
    return a;
  }

  // A sum without a common factor stays the node it is, which the program may need anyway.
  Factored sum(NodeId id, Factored a, Factored b) {
    Factored result{id, take_common(a.over, b.over), take_common(a.under, b.under)};
    if (result.over.empty() && result.under.empty()) return result;
    const NodeId left = remade(a), right = remade(b);
    result.rest = append_map(data_, node_of(data_, id).op, {left, right});
    return result;
  }

  NodeId remade(const Factored& value) {
    NodeId result = value.rest ? *value.rest : constant(1);
    for (const NodeId factor : value.over) result = append_map(data_, Op::Mul, {result, factor});
    for (const NodeId divisor : value.under) result = append_map(data_, Op::Div, {result, divisor});
    return result;
  }

  Program::Data& data_;
  Axis axis_;
};

Program finishing_program(const Program::Data& data, const Factored& sum, Axis axis, const std::string& output,
                          const std::string& gradient) {
  Builder b(concat(data.name, "_", gradient));
  std::map<NodeId, Value> copied;
  Value value = b.load_partials(output, Reduction::Sum, axis).named(output);
  for (const NodeId factor : sum.over) value = value * remake_all(b, data, factor, copied);
  for (const NodeId divisor : sum.under) value = value / remake_all(b, data, divisor, copied);
  b.store(gradient, value.named(gradient));
  return simplify(b.build());
}

struct Term {
  NodeId id;
  bool is_negative;
};

// The terms of a tile, products with sums multiplied out; the first has the sign of the whole.
std::vector<Term> terms_of(Program::Data& data, const Term& whole) {
  const Node node = node_of(data, whole.id);
  const auto is_sum = [&](NodeId id) {
    const Node& of = node_of(data, id);
    return of.kind == NodeKind::Map && (of.op == Op::Add || of.op == Op::Sub);
  };
  const auto both = [&](Op op, NodeId first, NodeId second) {
    std::vector<Term> terms = terms_of(data, {first, whole.is_negative});
    const std::vector<Term> more = terms_of(data, {second, whole.is_negative != (op == Op::Sub)});
    terms.insert(terms.end(), more.begin(), more.end());
    return terms;
  };
  if (is_sum(whole.id)) return both(node.op, node.args[0], node.args[1]);
  if (node.kind != NodeKind::Map || node.op != Op::Mul) return {whole};
  for (std::size_t i = 0; i < 2; ++i) {
    if (!is_sum(node.args[i])) continue;
    const Node sum = node_of(data, node.args[i]);
    const NodeId first = append_map(data, Op::Mul, {sum.args[0], node.args[1 - i]});
    const NodeId second = append_map(data, Op::Mul, {sum.args[1], node.args[1 - i]});
    return both(sum.op, first, second);
  }
  return {whole};
}

void store_reduction(Program::Data& data, NodeId of, Node store, Axis axis, std::int64_t width) {
  store.args = {append(data, {.kind = NodeKind::Reduce, .args = {of}, .axis = axis, .period = width})};
  data.nodes.back().name = data.operands[static_cast<std::size_t>(store.index)].name;
  append(data, std::move(store));
}

// Stores each term to an output of its own, the first to that of the sum. A sum with a term that is no tile, such as
// that of a row, stays whole: only tiles are reduced.
std::vector<SumTerm> store_apart(Program::Data& data, const Node& store, NodeId sum, Axis axis, std::int64_t width) {
  const Operand operand = data.operands[static_cast<std::size_t>(store.index)];
  std::vector<SumTerm> stored;
  std::vector<Term> terms = terms_of(data, {sum, false});
  const auto is_tile = [&](const Term& term) { return node_of(data, term.id).type == Type{Shape::Tile}; };
  if (!std::ranges::all_of(terms, is_tile)) terms = {{sum, false}};
  for (const Term& term : terms) {
    Node to = store;
    if (!stored.empty()) {
      to.index = static_cast<int>(data.operands.size());
      data.operands.push_back(operand);
      data.operands.back().name = concat(operand.name, "_term", stored.size());
    }
    stored.push_back({data.operands[static_cast<std::size_t>(to.index)].name, term.is_negative});
    store_reduction(data, term.id, to, axis, width);
  }
  return stored;
}

// Stores the sum of a tile along the open axis to the operand, which then becomes one of partials.
void store_sum(Reduced& reduced, Program::Data& data, Node store, const OpenSum& open, std::int64_t width, bool apart) {
  Operand& operand = data.operands[static_cast<std::size_t>(store.index)];
  const std::string gradient = operand.name;
  operand.shape = open.axis == Axis::Row ? Shape::Col : Shape::Row;
  operand.partials = Partials{Reduction::Sum, open.axis, width};
  if (open.is_finished) {
    Factored sum = Factoring(data, open.axis).of(store.args[0]);
    if (!sum.rest || node_of(data, *sum.rest).type != Type{Shape::Tile}) sum = {store.args[0], {}, {}};
    operand.name = "s_" + gradient.substr(2);
    reduced.finish[gradient] = {operand.name, finishing_program(data, sum, open.axis, operand.name, gradient)};
    store.args[0] = *sum.rest;
    if (apart && open.axis == Axis::Row) {
      const std::string output = operand.name;
      reduced.terms[output] = store_apart(data, store, *sum.rest, open.axis, width);
      return;
    }
  }
  store_reduction(data, store.args[0], store, open.axis, width);
}

}  // namespace

Reduced reduce_open_sums(const Program& raw, const std::map<std::string, OpenSum>& sums, const PartialExtents& extents,
                         bool apart) {
  Reduced reduced;
  Program::Data data{raw.name(), raw.data().operands, {}};
  std::vector<NodeId> placed;
  for (Node node : raw.nodes()) {
    for (NodeId& arg : node.args) arg = placed[static_cast<std::size_t>(arg)];
    const auto open = node.kind == NodeKind::Store ? sums.find(raw.operand(node.index).name) : sums.end();
    if (open != sums.end()) {
      // Its name goes to the sum; no other may have it.
      for (Node& other : data.nodes)
        if (other.name == open->first || other.name == "s_" + open->first.substr(2)) other.name.clear();
      store_sum(reduced, data, node, open->second, extents.along(open->second.axis), apart);
    } else {
      append(data, node);
    }
    placed.push_back(static_cast<NodeId>(data.nodes.size() - 1));
  }
  reduced.program = Program(std::move(data));
  return reduced;
}

Program put_together(const Program& program, const std::map<std::string, std::vector<SumTerm>>& terms) {
  if (terms.empty()) return program;
  std::set<std::string> apart, extra;  // outputs of terms; those that go
  for (const auto& [output, sum] : terms)
    for (const SumTerm& term : sum) (term.output == output ? apart : extra).insert(term.output);
  apart.insert(extra.begin(), extra.end());
  Program::Data data{program.name(), {}, {}};
  std::vector<int> moved;
  for (const Operand& operand : program.operands()) {
    moved.push_back(static_cast<int>(data.operands.size()));
    if (!extra.contains(operand.name)) data.operands.push_back(operand);
  }
  std::map<std::string, std::pair<NodeId, NodeId>> found;  // reduction and store of each term, in the program
  std::set<NodeId> reductions;
  for (NodeId id = 0; id < static_cast<NodeId>(program.nodes().size()); ++id) {
    const Node& node = program.node(id);
    if (node.kind != NodeKind::Store || !apart.contains(program.operand(node.index).name)) continue;
    found[program.operand(node.index).name] = {node.args[0], id};
    reductions.insert(node.args[0]);
  }
  std::vector<NodeId> placed;
  for (NodeId id = 0; id < static_cast<NodeId>(program.nodes().size()); ++id) {
    Node node = program.node(id);
    placed.push_back(static_cast<NodeId>(data.nodes.size()));
    const bool is_named = node.kind == NodeKind::Load || node.kind == NodeKind::Store;
    if (reductions.contains(id)) continue;
    if (node.kind == NodeKind::Store && apart.contains(program.operand(node.index).name)) continue;
    for (NodeId& arg : node.args) arg = placed[static_cast<std::size_t>(arg)];
    if (is_named) node.index = moved[static_cast<std::size_t>(node.index)];
    data.nodes.push_back(std::move(node));
  }
  for (const auto& [output, sum] : terms) {
    std::optional<NodeId> total;
    for (const SumTerm& term : sum) {
      const NodeId tile = placed[static_cast<std::size_t>(program.node(found.at(term.output).first).args[0])];
      total = total ? append_map(data, term.is_negative ? Op::Sub : Op::Add, {*total, tile}) : tile;
    }
    const Node& reduction = program.node(found.at(output).first);
    Node store = program.node(found.at(output).second);
    store.index = moved[static_cast<std::size_t>(store.index)];
    store_reduction(data, *total, std::move(store), reduction.axis, reduction.period);
  }
  return Program(std::move(data));
}

}  // namespace coda
