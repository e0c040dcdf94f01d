// Table of contents: seed the outputs, pull back to the inputs, store what arrived, simplify, and see that nothing is
// needed that cannot be had.
#include "coda/differentiate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "autodiff/forward_values.h"
#include "autodiff/pullback.h"
#include "autodiff/reductions.h"
#include "autodiff/remake.h"
#include "autodiff/request.h"
#include "core/check.h"
#include "ir/order.h"
#include "ir/validate.h"

namespace coda {
namespace {

// The cotangents of one output, summed; an empty Value for none.
Value arriving(Builder& b, const Operand& output, const std::vector<Cotangent>& cotangents) {
  Value sum;
  for (const Cotangent& cotangent : cotangents) {
    if (cotangent.output != output.name || cotangent.source == Cotangent::Source::None) continue;
    Value value;
    if (cotangent.source == Cotangent::Source::Acc) value = b.acc();
    if (cotangent.source == Cotangent::Source::Load)
      value = load_like(b, {.name = cotangent.operand, .shape = output.shape, .pairing = output.pairing});
    if (cotangent.source == Cotangent::Source::Computed) {
      const Program::Data& data = cotangent.program->data();
      std::map<NodeId, Value> made;
      for (const Node& node : data.nodes)
        if (node.kind == NodeKind::Store) value = remake_all(b, data, node.args[0], made);
    }
    sum = sum ? sum + value : value;
  }
  return sum;
}

// Stores the gradients of a backward under construction.
class Gradients {
 public:
  Gradients(Builder& b, const Program& forward, Pullback& pullback) : b_(b), forward_(forward), pullback_(pullback) {}

  void store(const std::string& of) {
    const std::vector<bool> nodes = nodes_of(forward_, of);
    std::vector<Flow> flows;
    Type type;
    for (std::size_t id = 0; id < nodes.size(); ++id) {
      if (!nodes[id]) continue;
      type = forward_.nodes()[id].type;
      if (const auto flow = pullback_.flow(static_cast<NodeId>(id))) flows.push_back(*flow);
    }
    REQUIRE(ValueError, !flows.empty(), call_of(forward_), "no gradient reaches '", of,
            "': no output with a cotangent depends on it smoothly; leave it out of wrt");
    const Flow total = pullback_.sum(flows);
    if (total.domain == type)
      store_whole(of, total.value, type);
    else
      store_sum(of, total, type);
  }

  const std::map<std::string, OpenSum>& open_sums() const { return open_sums_; }

  std::vector<Gradient> finished(const std::map<std::string, Finish>& finish) const {
    std::vector<Gradient> result = gradients_;
    for (Gradient& gradient : result) {
      const auto found = finish.find(gradient.output);
      if (found == finish.end()) continue;
      gradient.output = found->second.output;
      gradient.finish = found->second.program;
    }
    return result;
  }

 private:
  Gradient& add(const std::string& of, const std::string& output) {
    gradients_.push_back({.of = of, .output = output});
    const int operand = forward_.find_operand(of);
    if (operand >= 0) gradients_.back().period = forward_.operand(operand).period;
    return gradients_.back();
  }

  // The output a value is stored to already, or a new one.
  std::string output_of(const std::string& of, NodeId value, const Type& type, bool is_open) {
    return outputs_.try_emplace({value, type.shape, type.pairing.head, is_open}, "d_" + of).first->second;
  }

  void store_whole(const std::string& of, const Value& value, const Type& type) {
    const std::string output = output_of(of, value.id(), type, false);
    add(of, output);
    if (output == "d_" + of) b_.store(output, spread(b_, value, type));
  }

  void store_sum(const std::string& of, const Flow& flow, const Type& type) {
    REQUIRE(NotImplementedError, type.pairing.is_none(), call_of(forward_), "wrt names '", of, "', a ", type_text(type),
            ": sums over rows of pairs of columns are not implemented; leave it out");
    const int operand = forward_.find_operand(of);
    const bool is_finished = operand >= 0 && forward_.operand(operand).partials;
    const Flow whole = flow.domain == Type{Shape::Tile} ? flow : pullback_.over_tile(flow);
    const std::string output = is_finished ? "d_" + of : output_of(of, whole.value.id(), type, true);
    add(of, output).sum_rows = type.shape == Shape::Scalar;
    if (output != "d_" + of) return;
    b_.store(output, spread(b_, whole.value, {Shape::Tile}));
    open_sums_[output] = {type.shape == Shape::Row ? Axis::Col : Axis::Row, is_finished};
  }

  Builder& b_;
  const Program& forward_;
  Pullback& pullback_;
  std::vector<Gradient> gradients_;
  std::map<std::string, OpenSum> open_sums_;
  std::map<std::tuple<NodeId, Shape, std::int64_t, bool>, std::string> outputs_;
};

std::vector<bool> wanted_nodes(const Program& forward, const std::vector<std::string>& wrt) {
  std::vector<bool> wanted(forward.nodes().size(), false);
  for (const std::string& name : wrt) {
    const std::vector<bool> nodes = nodes_of(forward, name);
    for (std::size_t id = 0; id < nodes.size(); ++id) wanted[id] = wanted[id] || nodes[id];
  }
  return wanted;
}

// A backward, and a value of the forward that it needs and cannot have.
struct Derivation {
  struct Missing {
    NodeId id;
    std::string name, kind;
  };
  Backward backward;
  std::optional<Missing> missing;
};

std::optional<Derivation::Missing> missing_in(const Program& backward, const Program& forward,
                                              const ForwardValues& values) {
  const std::optional<NodeId> id = values.missing(backward);
  if (!id) return {};
  const Node& node = forward.node(*id);
  return Derivation::Missing{*id, node.kind == NodeKind::Acc ? acc_name(node.index) : node.name,
                             std::string(name_of(node))};
}

Derivation derive(const Program& program, const std::vector<std::string>& wrt, const std::vector<Cotangent>& cotangents,
                  const DifferentiateOptions& options) {
  check_request(program, wrt, cotangents, options);
  const Program forward = with_single_reads(program);
  Builder b(forward.name() + "_backward");
  ForwardValues values(b, forward, options);
  Pullback pullback(b, forward, values, wanted_nodes(forward, wrt));
  for (const Node& node : forward.nodes()) {
    if (node.kind != NodeKind::Store || !pullback.needs(node.args[0])) continue;
    const Value cotangent = arriving(b, forward.operand(node.index), cotangents);
    if (cotangent) pullback.seed(node, cotangent);
  }
  pullback.run();
  Gradients gradients(b, forward, pullback);
  for (const std::string& name : wrt) gradients.store(name);
  for (const std::string& output : options.remade) values.store_again(output);
  values.store_remade();
  const Program raw = b.build();
  const PartialExtents extents{options.partial_width,
                               options.partial_rows > 0 ? options.partial_rows : options.partial_width};
  const auto derived = [&](bool apart) {
    const Reduced reduced = reduce_open_sums(raw, gradients.open_sums(), extents, apart);
    const Program known = values.load_remade(simplify(reduced.program));
    const Program backward = simplify(put_together(known, reduced.terms));
    return Backward{Program(in_order_of_stores(backward.data())), gradients.finished(reduced.finish)};
  };
  Backward backward = derived(false);
  if (values.missing(backward.program)) backward = derived(true);
  const auto missing = missing_in(backward.program, forward, values);
  return {std::move(backward), missing};
}

}  // namespace

Cotangent Cotangent::none(const std::string& output) { return {output, Source::None, {}, {}}; }
Cotangent Cotangent::acc(const std::string& output) { return {output, Source::Acc, {}, {}}; }
Cotangent Cotangent::load(const std::string& output) { return load(output, "d_" + output); }
Cotangent Cotangent::load(const std::string& output, const std::string& operand) {
  return {output, Source::Load, operand, {}};
}
Cotangent Cotangent::computed(const std::string& output, const Program& program) {
  return {output, Source::Computed, {}, program};
}

Backward differentiate(const Program& program, const std::vector<std::string>& wrt,
                       const std::vector<Cotangent>& cotangents, const DifferentiateOptions& options) {
  const Derivation derivation = derive(program, wrt, cotangents, options);
  if (const auto& missing = derivation.missing)
    throw ValueError(
        concat("differentiate: program '", program.name(), "': the backward needs value ",
               missing->name.empty() ? concat(missing->id, " (", missing->kind, ")") : concat("'", missing->name, "'"),
               ", which is neither stored nor follows from what is: store it (with_saved), or let the "
               "accumulator be computed again (recompute_acc)"));
  return derivation.backward;
}

std::vector<std::string> values_to_save(const Program& forward, const std::vector<std::string>& wrt,
                                        const std::vector<Cotangent>& cotangents) {
  std::vector<std::string> saved;
  std::vector<Cotangent> known = cotangents;
  const auto save = [&](const std::string& value) {
    if (std::find(saved.begin(), saved.end(), value) != saved.end()) return false;
    saved.push_back(value);
    known.push_back(Cotangent::none(value));
    return true;
  };
  while (const auto missing = derive(with_saved(forward, saved), wrt, known, {}).missing) {
    bool found = !missing->name.empty() && save(missing->name);
    // All values follow from the accumulators, which always have a name.
    for (int which = 0; which < forward.accumulators() && missing->name.empty(); ++which)
      found = save(acc_name(which)) || found;
    INVARIANT(found, "values_to_save: nothing gives value ", missing->id, " of\n", to_text(forward));
  }
  return saved;
}

Program with_saved(const Program& forward, const std::vector<std::string>& values) {
  Program::Data data = forward.data();
  for (const std::string& name : values) {
    const std::string call = concat("with_saved: program '", forward.name(), "': '", name, "' ");
    REQUIRE(ValueError, forward.find_operand(name) < 0, call, "is an operand already: choose a value by another name");
    NodeId found = -1;
    for (NodeId id = 0; id < static_cast<NodeId>(forward.nodes().size()); ++id) {
      const Node& node = forward.node(id);
      if (node.name == name || (node.kind == NodeKind::Acc && acc_name(node.index) == name)) found = id;
    }
    REQUIRE(ValueError, found >= 0 && forward.node(found).type.shape == Shape::Tile, call, "is ",
            found < 0 ? "no value of the program" : concat("a ", type_text(forward.node(found).type)),
            ", expected the name of a tile, or acc0");
    const Type& type = forward.node(found).type;
    Node store{.kind = NodeKind::Store, .type = type, .args = {found}};
    store.index = static_cast<int>(data.operands.size());
    data.operands.push_back({.name = name, .role = Role::Output, .shape = type.shape, .pairing = type.pairing});
    data.nodes.push_back(std::move(store));
  }
  return Program(in_order_of_stores(data));
}

}  // namespace coda
