// differentiate and with_saved. coda_cpp/differentiate.py is the interface: it takes what gemm takes as an epilogue.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "coda/differentiate.h"

namespace coda::python {
namespace {

using namespace nb::literals;

std::string_view source_word(Cotangent::Source source) {
  switch (source) {
    case Cotangent::Source::None: return "none";
    case Cotangent::Source::Acc: return "acc";
    case Cotangent::Source::Load: return "load";
    case Cotangent::Source::Computed: return "computed";
  }
  INVARIANT(false, "source ", static_cast<int>(source));
}

void bind_cotangent(nb::module_& m) {
  nb::class_<Cotangent>(m, "Cotangent",
                        "How the cotangent (the gradient of the loss) of an output of the forward program arrives. "
                        "Several for one output are summed.\n\n"
                        "An output stored as partials has the cotangent of the finished reduction: (M,), or (N,) along "
                        "axis 'col'.")
      .def_static("none", &Cotangent::none, "output"_a,
                  "Nothing depends on the output: it was stored to be read by the backward, say.")
      .def_static("acc", &Cotangent::acc, "output"_a,
                  "The accumulator of the backward's own product, (M, N): the next layer's data gradient.")
      .def_static(
          "load",
          [](const std::string& output, const std::optional<std::string>& operand) {
            return operand ? Cotangent::load(output, *operand) : Cotangent::load(output);
          },
          "output"_a, "operand"_a = nb::none(),
          "Input `operand` of the backward, of the output's shape; None: \"d_<output>\".")
      .def_static("computed", &Cotangent::computed, "output"_a, "program"_a,
                  "What `program`, which stores one value and has no accumulator, computes; see Gradient.finish.")
      .def_ro("output", &Cotangent::output, "The output of the forward program.")
      .def_prop_ro(
          "source", [](const Cotangent& c) { return source_word(c.source); }, "'none', 'acc', 'load' or 'computed'.")
      .def_ro("operand", &Cotangent::operand, "The input of the backward; '' unless loaded.")
      .def_ro("program", &Cotangent::program, "What computes it; None unless computed.")
      .def("__repr__",
           [](const Cotangent& c) { return concat("<Cotangent ", source_word(c.source), " of ", c.output, ">"); });
}

void bind_gradient(nb::module_& m) {
  nb::class_<Gradient>(m, "Gradient", "Where the gradient by one accumulator or operand is found.")
      .def_ro("of", &Gradient::of, "The name, as in `wrt`.")
      .def_ro(
          "output", &Gradient::output,
          "Output of the backward program; gradients that are one value share it. (M, N) of an accumulator or tile. "
          "Of a row, col or scalar that met a tile, f32 partial sums that remain to be summed: "
          "(M / partial_width, N) of a row, (M, N / partial_width) of a col or scalar, rounded up; of others, its "
          "own shape.")
      .def_ro("finish", &Gradient::finish,
              "Only for an operand of partials: the program without accumulator that makes its gradient, (M,) or (N,), "
              "from `output`, a sum without the factors that do not vary along it, and stores \"d_<of>\". "
              "Cotangent.computed takes it for the backward of the program that made the partials.")
      .def_ro("period", &Gradient::period,
              "Of a row that repeats: entries so many columns apart remain to be summed. 0: none.")
      .def_ro("sum_rows", &Gradient::sum_rows, "Of a scalar: the finished col remains to be summed over its rows.")
      .def("__repr__", [](const Gradient& g) { return concat("<Gradient of ", g.of, " in ", g.output, ">"); });
}

}  // namespace

void bind_differentiate(nb::module_& module) {
  bind_cotangent(module);
  bind_gradient(module);
  module.def(
      "differentiate",
      [](const Program& forward, const std::vector<std::string>& wrt, const std::vector<Cotangent>& cotangents,
         bool recompute_acc, const std::optional<std::vector<std::string>>& saved,
         const std::vector<std::string>& remade, std::int64_t partial_width, std::int64_t partial_rows) {
        Backward backward = differentiate(forward, wrt, cotangents,
                                          {.recompute_acc = recompute_acc,
                                           .saved = saved,
                                           .remade = remade,
                                           .partial_width = partial_width,
                                           .partial_rows = partial_rows});
        return std::pair(std::move(backward.program), std::move(backward.gradients));
      },
      "forward"_a, "wrt"_a, "cotangents"_a, nb::kw_only(), "recompute_acc"_a, "saved"_a.none(), "remade"_a,
      "partial_width"_a, "partial_rows"_a = 0,
      "The backward program and its gradients; coda_cpp.differentiate is the interface.");
  module.def("values_to_save", &values_to_save, "forward"_a, "wrt"_a, "cotangents"_a,
             "Values that with_saved must store for differentiate to have all it needs: names, or accumulators.");
  module.def("with_saved", &with_saved, "forward"_a, "values"_a,
             "The program that stores `values` too; coda_cpp.with_saved is the interface.");
}

}  // namespace coda::python
