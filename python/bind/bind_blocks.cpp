// The Transformer blocks, which coda_cpp/blocks.py gathers.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "bind.h"
#include "blocks.h"

namespace coda::python {
namespace {

using namespace nb::literals;

void bind_norm(nb::module_& m) {
  nb::class_<NormObject>(m, "RmsNorm", "An RMSNorm: weight (d,), eps, and how the weight enters.")
      .def(
          "__init__",
          [](NormObject* self, const nb::object& weight, double eps, std::string_view kind) {
            NormObject made{.norm = {.weight = {}, .eps = eps, .kind = to_norm_weight("RmsNorm", kind)}, .weight = {}};
            if (!weight.is_none()) {
              made.weight = import_array(weight, {"RmsNorm", "argument 'weight'"});
              made.norm.weight = made.weight.view();
            }
            new (self) NormObject(std::move(made));
          },
          "weight"_a.none(), "eps"_a = 1e-6, "kind"_a = "gamma", "kind: 'gamma', 'one_plus_gamma' or 'none'.")
      .def_prop_ro("eps", [](const NormObject& self) { return self.norm.eps; });
}

void bind_stream(nb::module_& m) {
  nb::class_<StreamObject>(m, "NormedStream",
                           "The residual stream between two blocks: what the delayed norm needs of it.")
      .def_prop_ro(
          "x", [](const StreamObject& s) { return export_whole(s.stream.x, s.framework); },
          "(T, d), the residual stream.")
      .def_prop_ro(
          "h", [](const StreamObject& s) { return export_whole(s.stream.h, s.framework); }, "(T, d), x * gamma.")
      .def_prop_ro(
          "sum_sq", [](const StreamObject& s) { return export_whole(s.stream.sum_sq, s.framework); },
          "(T, partials) f32, partial sums of x^2.");
}

void bind_streams(nb::module_& m) {
  m.def(
      "enter_norm",
      [](const nb::object& x, const NormObject& norm) {
        Arguments args("enter_norm");
        const TensorView view = args.required("x", x);
        const Execution where = args.execution();
        return StreamObject{without_gil([&] { return enter_norm(view, norm.norm, where); }), args.framework()};
      },
      "x"_a, "norm"_a, "Start of a chain: x (T, d) gives x, x * gamma and the partial sums of x^2.");
  m.def(
      "residual_norm",
      [](const nb::object& y, const nb::object& weight, const nb::object& x, const NormObject& next,
         const nb::object& bias) {
        Arguments args("residual_norm");
        const TensorView left = args.required("y", y), right = args.required("weight", weight),
                         residual = args.required("x", x);
        const auto b = args.optional("bias", bias);
        const Execution where = args.execution();
        return StreamObject{without_gil([&] { return residual_norm(left, right, residual, next.norm, b, where); }),
                            args.framework()};
      },
      "y"_a, "weight"_a, "x"_a, "next"_a, "bias"_a = nb::none(),
      "y @ weight.T (+ bias) + x, and what the next norm needs. y: (T, k); weight: (d, k); bias: (d,).");
}

void bind_linears(nb::module_& m) {
  m.def(
      "norm_linear",
      [](const StreamObject& stream, const NormObject& norm, const nb::object& weight, const nb::object& bias) {
        Arguments args("norm_linear");
        const TensorView w = args.required("weight", weight);
        const auto b = args.optional("bias", bias);
        const Execution where = stream.execution();
        return export_whole(without_gil([&] { return norm_linear(stream.stream, norm.norm, w, b, {}, where); }),
                            stream.framework);
      },
      "stream"_a, "norm"_a, "weight"_a, "bias"_a = nb::none(), "norm(x) @ weight.T (+ bias): (T, n). weight: (n, d).");
  m.def(
      "gated_mlp",
      [](const StreamObject& stream, const NormObject& norm, const nb::object& gate_weight, const nb::object& up_weight,
         const std::string& gate, const nb::object& gate_bias, const nb::object& up_bias) {
        Arguments args("gated_mlp");
        const TensorView g = args.required("gate_weight", gate_weight), u = args.required("up_weight", up_weight);
        const auto gb = args.optional("gate_bias", gate_bias), ub = args.optional("up_bias", up_bias);
        const Execution where = stream.execution();
        return export_whole(without_gil([&] { return gated_mlp(stream.stream, norm.norm, g, u, gate, gb, ub, where); }),
                            stream.framework);
      },
      "stream"_a, "norm"_a, "gate_weight"_a, "up_weight"_a, "gate"_a = "swiglu", "gate_bias"_a = nb::none(),
      "up_bias"_a = nb::none(), "gate(norm(x) @ gate_weight.T, norm(x) @ up_weight.T): (T, f).");
}

void bind_attention(nb::module_& m) {
  m.def(
      "causal_attention",
      [](const nb::object& q, const nb::object& k, const nb::object& v, std::int64_t heads, std::int64_t kv_heads,
         double scale) {
        Arguments args("causal_attention");
        const TensorView queries = args.required("q", q), keys = args.required("k", k), values = args.required("v", v);
        const Execution where = args.execution();
        return export_whole(
            without_gil([&] { return causal_attention(queries, keys, values, heads, kv_heads, scale, where); }),
            args.framework());
      },
      "q"_a, "k"_a, "v"_a, nb::kw_only(), "heads"_a, "kv_heads"_a, "scale"_a = 0.0,
      "Causal grouped-query attention. q: (T, heads*head); k, v: (S, kv_heads*head), S >= T. scale 0: 1/sqrt(head).");
}

void bind_loss(nb::module_& m) {
  nb::class_<Loss>(m, "Loss", "A cross entropy; float(loss) is its value.")
      .def_ro("value", &Loss::value, "Mean over counted tokens (NaN when there is none), or sum; 0 for 'none'.")
      .def_ro("counted", &Loss::counted, "Tokens whose target is not ignore_index.")
      .def_prop_ro(
          "per_token", [](const Loss& l) { return export_whole(l.per_token, Framework::Numpy); },
          "(T,) f32; 0 where ignored.")
      .def("__float__", [](const Loss& l) { return l.value; })
      .def("__repr__", [](const Loss& l) { return concat("<Loss ", l.value, " of ", l.counted, " tokens>"); });
  m.def(
      "lm_head_loss",
      [](const StreamObject& stream, const NormObject& norm, const nb::object& weight, const nb::object& targets,
         std::string_view reduction, std::int64_t ignore_index) {
        Arguments args("lm_head_loss");
        const TensorView w = args.required("weight", weight), t = args.required("targets", targets);
        const LossReduction by = to_loss_reduction("lm_head_loss", reduction);
        const Execution where = stream.execution();
        return without_gil([&] { return lm_head_loss(stream.stream, norm.norm, w, t, by, ignore_index, where); });
      },
      "stream"_a, "norm"_a, "weight"_a, "targets"_a, "reduction"_a = "mean", "ignore_index"_a = -100,
      "Cross entropy of norm(x) @ weight.T with targets (T,); the logits are never stored.\n"
      "Raises IndexError for a target outside [0, V) that is not ignore_index.");
}

}  // namespace

void bind_blocks(nb::module_& module) {
  bind_norm(module);
  bind_stream(module);
  bind_streams(module);
  bind_linears(module);
  bind_attention(module);
  bind_loss(module);
  bind_layer(module);
}

}  // namespace coda::python
