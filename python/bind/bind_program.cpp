// DType, Pairing, Operand, Program and Builder.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "coda/build.h"
#include "ir/validate.h"

namespace coda::python {
namespace {

using OpEntry = std::tuple<std::string, int, std::vector<std::pair<double, double>>>;

using namespace nb::literals;

void bind_dtype(nb::module_& module) {
  nb::enum_<DType>(module, "DType", "Element type of a tensor.")
      .value("f64", DType::F64)
      .value("f32", DType::F32)
      .value("bf16", DType::BF16)
      .value("f16", DType::F16)
      .value("i32", DType::I32)
      .value("i64", DType::I64)
      .export_values();
}

std::int64_t width_or_head(std::int64_t width, std::int64_t head) { return width == 0 ? head : width; }

void bind_pairing(nb::module_& module) {
  nb::class_<Pairing>(module, "Pairing",
                      "How columns pair up inside the first `width` columns of every `head` columns.")
      .def_ro("head", &Pairing::head, "Period in columns; divides N.")
      .def_ro("width", &Pairing::width, "Paired columns at the start of each head.")
      .def(
          "__eq__", [](const Pairing& a, const Pairing& b) { return a == b; }, "other"_a, nb::is_operator())
      .def("__hash__",
           [](const Pairing& p) { return nb::hash(nb::make_tuple(static_cast<int>(p.kind), p.head, p.width)); })
      .def("__repr__", [](const Pairing& p) { return pairing_text(p); });
  module.def(
      "halves",
      [](std::int64_t head, std::int64_t width) {
        return Pairing{Pairing::Kind::Halves, head, width_or_head(width, head)};
      },
      "head"_a, "width"_a = 0,
      "Column c pairs with c + width/2 (Hugging Face LLaMA's order); width 0: the whole head.");
  module.def(
      "interleaved",
      [](std::int64_t head, std::int64_t width) {
        return Pairing{Pairing::Kind::Interleaved, head, width_or_head(width, head)};
      },
      "head"_a, "width"_a = 0, "Column 2c pairs with 2c + 1 (GPT-J's order); width 0: the whole head.");
}

void bind_operand(nb::module_& module) {
  nb::class_<Partials>(module, "PartialsSpec",
                       "How an operand holds a reduction: one f32 entry for every `width` columns "
                       "(axis 'row') or rows (axis 'col') of the output.")
      .def_prop_ro(
          "op", [](const Partials& p) { return name_of(p.op); }, "'sum', 'max' or 'lse'.")
      .def_prop_ro(
          "axis", [](const Partials& p) { return name_of(p.axis); }, "'row' or 'col'.")
      .def_ro("width", &Partials::width, "Columns or rows an entry covers; 0 on an input: any.");
  nb::class_<Operand>(module, "Operand", "A tensor a program reads or writes, bound by name when it runs.")
      .def_ro("name", &Operand::name)
      .def_prop_ro(
          "role", [](const Operand& o) { return name_of(o.role); }, "'in', 'out' or 'accumulate'.")
      .def_prop_ro(
          "shape", [](const Operand& o) { return name_of(o.shape); }, "'tile', 'row', 'col' or 'scalar'.")
      .def_prop_ro(
          "pairing", [](const Operand& o) { return o.pairing.is_none() ? std::nullopt : std::optional(o.pairing); },
          "The pairing of a half-width operand.")
      .def_ro("period", &Operand::period, "Column c reads entry c % period; 0: one entry a column.")
      .def_ro("dtype", &Operand::dtype, "The declared dtype; None: whatever is bound.")
      .def_ro("partials", &Operand::partials)
      .def("__repr__", [](const Operand& o) {
        return concat("<Operand ", name_of(o.role), " ", o.name, ": ", name_of(o.shape), ">");
      });
}

void bind_program_class(nb::module_& module) {
  nb::class_<Program>(
      module, "Program",
      "What happens to the accumulator of one matrix product; immutable. Equal programs have equal text.")
      .def_prop_ro("name", &Program::name)
      .def_prop_ro("text", nb::overload_cast<const Program&>(&to_text),
                   "The program as text, which parse() reads back exactly.")
      .def_prop_ro("operands", [](const Program& p) { return std::vector(p.operands().begin(), p.operands().end()); })
      .def_prop_ro("accumulators", &Program::accumulators, "Accumulators it reads: 0 (elementwise), 1, or 2 (a pair).")
      .def_prop_ro("column_granule", &Program::column_granule, "N must be a multiple of this.")
      .def("simplify", &simplify, "An equal program with fewer nodes.")
      .def_static("parse", &parse_program, "text"_a,
                  "The program with that text. Raises ValueError with line and column when it does not parse.")
      .def("__str__", nb::overload_cast<const Program&>(&to_text))
      .def("__repr__",
           [](const Program& p) {
             return concat("<Program ", p.name(), ": ", p.operands().size(), " operands, ", p.nodes().size(),
                           " nodes>");
           })
      .def(
          "__eq__", [](const Program& a, const Program& b) { return to_text(a) == to_text(b); }, "other"_a,
          nb::is_operator())
      .def("__hash__", [](const Program& p) { return nb::hash(nb::cast(to_text(p))); })
      .def("__getstate__", nb::overload_cast<const Program&>(&to_text))
      .def("__setstate__", [](Program* self, const std::string& text) { new (self) Program(parse_program(text)); });
}

LoadOptions load_options(std::int64_t period, const std::optional<Pairing>& pairing, nb::handle dtype) {
  return {period, pairing.value_or(Pairing{}), to_optional_dtype(dtype, "load")};
}

// A method that loads a Tile or Row, the shapes with columns.
template <class Class, class Load>
void def_load(Class& builder, const char* name, Load load, const char* doc) {
  builder.def(
      name,
      [load](Builder& self, const std::string& operand, std::int64_t period, const std::optional<Pairing>& pairing,
             const nb::object& dtype) { return (self.*load)(operand, load_options(period, pairing, dtype)); },
      "operand"_a, nb::kw_only(), "period"_a = 0, "pairing"_a = nb::none(), "dtype"_a = nb::none(), doc);
}

template <class Class, class Load>
void def_plain_load(Class& builder, const char* name, Load load, const char* doc) {
  builder.def(
      name,
      [load](Builder& self, const std::string& operand, const nb::object& dtype) {
        return (self.*load)(operand, load_options(0, {}, dtype));
      },
      "operand"_a, nb::kw_only(), "dtype"_a = nb::none(), doc);
}

void bind_builder(nb::module_& module) {
  nb::class_<Builder> builder(module, "Builder", "Writes a Program: values in, stores out, build().");
  builder.def(nb::init<std::string>(), "name"_a, "Raises ValueError unless `name` is an identifier.")
      .def("acc", &Builder::acc, "which"_a = 0, "Accumulator of the product; 1: of the second matrix of a pair.")
      .def("constant", &Builder::constant, "value"_a);
  def_load(builder, "load_tile", &Builder::load_tile, "An (M, N) operand; with `period`, (M, period).");
  def_load(builder, "load_row", &Builder::load_row, "An (N,) operand, one number a column; with `period`, (period,).");
  def_plain_load(builder, "load_col", &Builder::load_col, "An (M,) operand, one number a row.");
  def_plain_load(builder, "load_scalar", &Builder::load_scalar, "One number.");
  builder
      .def(
          "load_partials",
          [](Builder& self, const std::string& operand, std::string_view op, std::string_view axis) {
            return self.load_partials(operand, to_reduction("load_partials", op), to_axis("load_partials", axis));
          },
          "operand"_a, "op"_a = "sum", "axis"_a = "row",
          "A reduction another program left as partials, finished. Axis 'row' gives a Col, 'col' a Row.")
      .def("row_index", &Builder::row_index, "The row number of each row, a Col.")
      .def(
          "col_index",
          [](Builder& self, std::int64_t period, const std::optional<Pairing>& pairing) {
            return self.col_index(period, pairing.value_or(Pairing{}));
          },
          "period"_a = 0, "pairing"_a = nb::none(),
          "The column number of each column, a Row, modulo `period` unless 0.")
      .def(
          "store",
          [](Builder& self, const std::string& operand, const Value& value, const nb::object& dtype, bool accumulate) {
            self.store(operand, value, {to_optional_dtype(dtype, "store"), accumulate});
          },
          "operand"_a, "value"_a, nb::kw_only(), "dtype"_a = nb::none(), "accumulate"_a = false,
          "Writes `value` to the output operand it declares. Raises ValueError for a name already used.")
      .def("build", &Builder::build, "The finished program. Raises ValueError when nothing is stored.");
}

std::string dtype_word(nb::handle dtype) {
  const nb::object name = nb::getattr(dtype, "__name__", dtype);  // of a class such as numpy.float32
  const auto word = nb::cast<std::string>(nb::str(name));
  return word.substr(word.rfind('.') + 1);  // "torch.bfloat16"
}

}  // namespace

DType to_dtype(nb::handle dtype, std::string_view call) {
  if (nb::isinstance<DType>(dtype)) return nb::cast<DType>(dtype);
  const std::string word = dtype_word(dtype);
  if (const auto short_name = dtype_from_name(word)) return *short_name;
  for (const auto& [text, value] : std::initializer_list<Word<DType>>{{"float64", DType::F64},
                                                                      {"float32", DType::F32},
                                                                      {"bfloat16", DType::BF16},
                                                                      {"float16", DType::F16},
                                                                      {"int32", DType::I32},
                                                                      {"int64", DType::I64}})
    if (text == word) return value;
  throw TypeError(concat(call, ": dtype is '", word, "', expected one of f64, f32, bf16, f16, i32, i64"));
}

std::optional<DType> to_optional_dtype(nb::handle dtype, std::string_view call) {
  if (dtype.is_none()) return {};
  return to_dtype(dtype, call);
}

void bind_program(nb::module_& module) {
  bind_dtype(module);
  bind_pairing(module);
  bind_operand(module);
  nb::class_<Value>(module, "Value",
                    "A value of a program under construction; usable only with values of its Builder.");
  bind_program_class(module);
  bind_builder(module);
  module.def(
      "op_table",
      [] {
        std::vector<OpEntry> rows;
        for (const OpRow& row : op_table()) {
          std::vector<std::pair<double, double>> domain;
          for (int i = 0; i < row.arity; ++i) domain.emplace_back(row.domain[i].low, row.domain[i].high);
          rows.emplace_back(row.name, row.arity, std::move(domain));
        }
        return rows;
      },
      "(name, arity, [(low, high) of each argument, for tests]) of each pointwise op of program text.");
  module.def("parse_program", &parse_program, "text"_a, "The same as Program.parse.");
}

}  // namespace coda::python
