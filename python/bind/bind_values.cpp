// Value's operators, and the functions of Values: the op table, structure, activations and gates.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <variant>

#include "bind.h"
#include "coda/activations.h"
#include "coda/build.h"
#include "ir/validate.h"

namespace coda::python {
namespace {

using namespace nb::literals;

/// An argument that may be a number: it becomes a constant of the program of the others.
using Mixed = std::variant<Value, double>;

std::vector<Value> promote(std::string_view call, std::initializer_list<Mixed> args) {
  const Value* like = nullptr;
  for (const Mixed& arg : args)
    if (like == nullptr) like = std::get_if<Value>(&arg);
  REQUIRE(TypeError, like != nullptr, call,
          ": got numbers alone, expected at least one Value: use the math module for "
          "numbers known while tracing");
  std::vector<Value> values;
  for (const Mixed& arg : args)
    values.push_back(std::holds_alternative<Value>(arg) ? std::get<Value>(arg)
                                                        : constant_like(*like, std::get<double>(arg)));
  return values;
}

using ValueClass = nb::class_<Value>;

template <class Operator>
void def_operator(ValueClass& value, const char* name, const char* reflected, Operator apply) {
  value.def(
           name, [apply](const Value& a, const Value& b) { return apply(a, b); }, "other"_a, nb::is_operator())
      .def(
          name, [apply](const Value& a, double b) { return apply(a, b); }, "other"_a, nb::is_operator())
      .def(reflected, [apply](const Value& a, double b) { return apply(b, a); }, "other"_a, nb::is_operator());
}

void def_comparison(ValueClass& value, const char* name, Value (*apply)(const Value&, const Value&)) {
  value.def(
           name, [apply](const Value& a, const Value& b) { return apply(a, b); }, "other"_a, nb::is_operator())
      .def(
          name, [apply](const Value& a, double b) { return apply(a, constant_like(a, b)); }, "other"_a,
          nb::is_operator());
}

Value power(const Value& base, double exponent) {
  if (exponent == 2) return square(base);
  if (exponent == 1) return base;
  if (exponent == 0.5) return sqrt(base);
  if (exponent == -1) return rcp(base);
  if (exponent == -0.5) return rsqrt(base);
  throw NotImplementedError(concat("pow: exponent ", exponent,
                                   ", expected 2, 1, 0.5, -0.5 or -1: write "
                                   "exp(exponent * log(value)) for a positive value"));
}

void bind_value_class(ValueClass value) {
  def_operator(value, "__add__", "__radd__", [](const auto& a, const auto& b) { return a + b; });
  def_operator(value, "__sub__", "__rsub__", [](const auto& a, const auto& b) { return a - b; });
  def_operator(value, "__mul__", "__rmul__", [](const auto& a, const auto& b) { return a * b; });
  def_operator(value, "__truediv__", "__rtruediv__", [](const auto& a, const auto& b) { return a / b; });
  def_comparison(value, "__eq__", equal);
  def_comparison(value, "__ne__", not_equal);
  def_comparison(value, "__lt__", less);
  def_comparison(value, "__le__", less_equal);
  def_comparison(value, "__gt__", greater);
  def_comparison(value, "__ge__", greater_equal);
  value.def("__neg__", [](const Value& a) { return -a; })
      .def("__pos__", [](const Value& a) { return a; })
      .def("__abs__", [](const Value& a) { return abs(a); })
      .def("__pow__", &power, "exponent"_a, nb::is_operator())
      .def("__bool__",
           [](const Value&) -> bool {
             throw TypeError(
                 "epilogue: a Value has no truth value, it stands for every element of a tensor: use "
                 "coda_cpp.select(condition, a, b) instead of if, and, or, not, while");
           })
      .def("__float__",
           [](const Value&) -> double {
             throw TypeError(
                 "epilogue: a Value is no number, it stands for every element of a tensor: use coda_cpp.exp and "
                 "the like instead of the math module");
           })
      .def_prop_ro(
          "shape", [](const Value& a) { return name_of(a.type().shape); }, "'tile', 'row', 'col' or 'scalar'.")
      .def_prop_ro("id", &Value::id, "Position of the value's node in the program.")
      .def(
          "named", &Value::named, "name"_a,
          "Gives the value a name that text keeps. Raises ValueError unless it is an identifier other than v0, v1, ...")
      .def("__repr__", [](const Value& a) { return concat("<Value ", a.id(), ": ", type_text(a.type()), ">"); });
  value.attr("__hash__") = nb::none();         // == makes a Value
  value.attr("__array_ufunc__") = nb::none();  // numpy leaves its scalars' operators to Value
}

std::string op_doc(const OpRow& row) { return std::string(row.formula); }

// The row's function; names the C++ interface spells out (equal, clamp) follow in bind_functions.
void bind_op(nb::module_& module, const OpRow& row) {
  const Op op = row.op;
  const std::string name(row.name), doc = op_doc(row);
  if (row.arity == 1) module.def(name.c_str(), [op](const Value& a) { return map(op, {a}); }, "a"_a, doc.c_str());
  if (row.arity == 2)
    module.def(
        name.c_str(), [op, name](const Mixed& a, const Mixed& b) { return map(op, promote(name, {a, b})); }, "a"_a,
        "b"_a, doc.c_str());
  if (row.arity == 3)
    module.def(
        name.c_str(),
        [op, name](const Mixed& a, const Mixed& b, const Mixed& c) { return map(op, promote(name, {a, b, c})); }, "a"_a,
        "b"_a, "c"_a, doc.c_str());
}

void bind_comparison(nb::module_& module, const char* name, Value (*apply)(const Value&, const Value&)) {
  module.def(
      name,
      [name, apply](const Mixed& a, const Mixed& b) {
        const std::vector<Value> args = promote(name, {a, b});
        return apply(args[0], args[1]);
      },
      "a"_a, "b"_a, "1 where it holds, else 0; with NaN 0 (not_equal: 1).");
}

void bind_ops(nb::module_& module) {
  for (const OpRow& row : op_table()) {
    const bool spelled_out = row.op == Op::Eq || row.op == Op::Lt || row.op == Op::Le || row.op == Op::Clamp;
    if (!spelled_out) bind_op(module, row);
  }
  bind_comparison(module, "equal", equal);
  bind_comparison(module, "not_equal", not_equal);
  bind_comparison(module, "less", less);
  bind_comparison(module, "less_equal", less_equal);
  bind_comparison(module, "greater", greater);
  bind_comparison(module, "greater_equal", greater_equal);
  module.def("clamp", nb::overload_cast<const Value&, double, double>(&clamp), "a"_a, "low"_a, "high"_a,
             "min(max(a, low), high); NaN stays.");
  module.def(
      "clamp",
      [](const Mixed& a, const Mixed& low, const Mixed& high) {
        return map(Op::Clamp, promote("clamp", {a, low, high}));
      },
      "a"_a, "low"_a, "high"_a);
}

void bind_structure(nb::module_& module) {
  module.def("split", &split, "value"_a, "pairing"_a,
             "The two members of every pair of columns, each of half the width.");
  module.def(
      "join",
      [](const Value& first, const Value& second, const std::optional<Value>& rest) {
        return join(first, second, rest.value_or(Value()));
      },
      "first"_a, "second"_a, "rest"_a = nb::none(),
      "The inverse of split; `rest` gives the columns that belong to no pair and is required when there are any.");
  module.def("span_sum", &span_sum, "value"_a, "head"_a, "Sum over each `head` columns, the same for all of them.");
  module.def(
      "reduce_row",
      [](const Value& value, std::string_view op, std::int64_t width) {
        return reduce_row(value, to_reduction("reduce_row", op), width);
      },
      "value"_a, "op"_a, "width"_a,
      "Partial 'sum', 'max' or 'lse' over each `width` columns of a row, to be stored as (M, ceil(N/width)) f32.");
  module.def(
      "reduce_col",
      [](const Value& value, std::string_view op, std::int64_t width) {
        return reduce_col(value, to_reduction("reduce_col", op), width);
      },
      "value"_a, "op"_a, "width"_a,
      "Partial 'sum', 'max' or 'lse' over each `width` rows of a column, to be stored as (ceil(M/width), N) f32.");
  module.def(
      "round_to",
      [](const Value& value, const nb::object& dtype) { return round_to(value, to_dtype(dtype, "round_to")); },
      "value"_a, "dtype"_a, "Rounded to a floating dtype and widened again.");
  module.def("select_col", &select_col, "tile"_a, "index"_a, "ignored"_a = nb::none(),
             "For each row the entry of `tile` at column `index` (a Col), to be stored; rows with `ignored` get 0.");
}

void bind_activations(nb::module_& module) {
  std::vector<std::string> activation_names, gate_names;
  for (const Activation& row : activations()) {
    activation_names.emplace_back(row.name);
    if (nb::hasattr(module, activation_names.back().c_str())) continue;  // relu and sigmoid are ops too
    module.def(activation_names.back().c_str(), row.apply, "x"_a,
               "An activation; see docs/epilogues.md for its formula.");
  }
  for (const Gate& row : gates()) {
    gate_names.emplace_back(row.name);
    if (nb::hasattr(module, gate_names.back().c_str())) continue;
    module.def(gate_names.back().c_str(), row.apply, "gate"_a, "up"_a, "activation(gate) * up.");
  }
  const ClampedSwiglu defaults;
  module.def(
      "clamped_swiglu",
      [](const Value& gate, const Value& up, double alpha, double beta, double limit) {
        return clamped_swiglu(gate, up, {alpha, beta, limit});
      },
      "gate"_a, "up"_a, nb::kw_only(), "alpha"_a = defaults.alpha, "beta"_a = defaults.beta, "limit"_a = defaults.limit,
      "g = min(gate, limit), u = clamp(up, -limit, limit); g * sigmoid(alpha * g) * (u + beta).");
  module.def("activation_names", [activation_names] { return activation_names; }, "Names of the activations.");
  module.def("gate_names", [gate_names] { return gate_names; }, "Names of the gates.");
}

}  // namespace

void bind_values(nb::module_& module) {
  bind_value_class(nb::borrow<ValueClass>(module.attr("Value")));
  bind_ops(module);
  bind_structure(module);
  bind_activations(module);
}

}  // namespace coda::python
