// Programs of scalars, evaluated and differentiated with nothing but the rows of the op table: what tests of the table
// and of the activations need, independent of every backend and of the differentiation of whole programs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coda/build.h"

namespace coda::testing_support {

/// Builds a Value from scalar arguments of one Builder.
using ScalarFunction = std::function<Value(const std::vector<Value>& args)>;

/// "a", "b", "c": the operand an argument is loaded from.
inline std::string argument_name(std::size_t index) { return std::string(1, static_cast<char>('a' + index)); }

inline std::vector<Value> load_arguments(Builder& b, std::size_t count) {
  std::vector<Value> args;
  for (std::size_t i = 0; i < count; ++i) args.push_back(b.load_scalar(argument_name(i)));
  return args;
}

/// What each stored operand gets, in the order of the stores. `inputs` has the values of a, b, c as far as they are
/// arguments, then of any other input.
inline std::vector<double> evaluate(const Program& program, const std::vector<double>& inputs) {
  std::vector<double> values;
  std::vector<double> stored;
  for (const Node& node : program.nodes()) {
    double value = node.value;
    double args[3] = {};
    for (std::size_t i = 0; i < node.args.size(); ++i) args[i] = values[static_cast<std::size_t>(node.args[i])];
    if (node.kind == NodeKind::Load) {
      const std::string& name = program.operand(node.index).name;
      const bool is_argument = name.size() == 1;
      value = is_argument ? inputs.at(static_cast<std::size_t>(name[0] - 'a')) : inputs.back();
    }
    if (node.kind == NodeKind::Map) value = op_row(node.op).reference(args);
    if (node.kind == NodeKind::Store) stored.push_back(args[0]);
    values.push_back(value);
  }
  return stored;
}

inline Program value_program(std::size_t arity, const ScalarFunction& function) {
  Builder b("value");
  b.store("out", function(load_arguments(b, arity)));
  return b.build();
}

/// Stores d(function)/d(argument) for each argument: one sweep backward through the vjp rows.
inline Program derivative_program(std::size_t arity, const ScalarFunction& function) {
  const Program forward = value_program(arity, function);
  Builder b("derivative");
  load_arguments(b, arity);
  std::vector<Value> values;
  std::vector<std::vector<Value>> args;
  for (const Node& node : forward.nodes()) {
    args.emplace_back();
    for (const NodeId id : node.args) args.back().push_back(values[static_cast<std::size_t>(id)]);
    if (node.kind == NodeKind::Load) values.push_back(b.load_scalar(forward.operand(node.index).name));
    if (node.kind == NodeKind::Const) values.push_back(b.constant(node.value));
    if (node.kind == NodeKind::Map) values.push_back(map(node.op, args.back()));
    if (node.kind == NodeKind::Store) values.push_back(args.back()[0]);
  }
  std::vector<Value> cotangents(values.size());
  cotangents.back() = b.constant(1);
  const auto add = [&](NodeId id, const Value& part) {
    Value& sum = cotangents[static_cast<std::size_t>(id)];
    if (part) sum = sum ? sum + part : part;
  };
  for (std::size_t i = values.size(); i-- > 0;) {
    const Node& node = forward.nodes()[i];
    if (!cotangents[i]) continue;
    if (node.kind == NodeKind::Store) add(node.args[0], cotangents[i]);
    if (node.kind != NodeKind::Map) continue;
    const std::vector<Value> parts = op_row(node.op).vjp(args[i], values[i], cotangents[i]);
    for (std::size_t k = 0; k < parts.size(); ++k) add(node.args[k], parts[k]);
  }
  for (std::size_t i = 0; i < arity; ++i) {
    Value sum = b.constant(0);
    for (std::size_t j = 0; j < values.size(); ++j)
      if (forward.nodes()[j].kind == NodeKind::Load && cotangents[j] &&
          forward.operand(forward.nodes()[j].index).name == argument_name(i))
        sum = sum + cotangents[j];
    b.store("d_" + argument_name(i), sum);
  }
  return b.build();
}

}  // namespace coda::testing_support
