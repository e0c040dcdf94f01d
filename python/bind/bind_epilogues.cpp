// The epilogue library, under names that begin with epilogue_: coda_cpp/epilogues.py takes that off again.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "coda/epilogues.h"

namespace coda::python {
namespace {

using namespace nb::literals;
using namespace coda::epilogues;

Rope make_rope(std::string_view call, std::int64_t head, std::int64_t width, bool interleaved, std::string_view angles,
               double base, double scale) {
  const auto from = from_word<Rope::Angles>(
      call, "angles", angles,
      {{"base", Rope::Angles::Base}, {"frequency", Rope::Angles::Frequency}, {"table", Rope::Angles::Table}});
  return {.head = head, .width = width, .interleaved = interleaved, .angles = from, .base = base, .scale = scale};
}

void bind_plain(nb::module_& m) {
  m.def("epilogue_identity", &identity, "out = acc");
  m.def("epilogue_bias", &bias, "activation"_a = "",
        "out = activation(acc + bias); bias: (N,). No activation: acc + bias.");
  m.def("epilogue_scale", &scale, "out = alpha * acc; alpha: a number or [1].");
  m.def("epilogue_residual", &residual, "out = acc + residual; residual: (M, N).");
  m.def("epilogue_sigmoid", nb::overload_cast<>(&sigmoid), "out = sigmoid(acc)");
}

void bind_norms(nb::module_& m) {
  m.def(
      "epilogue_residual_rms",
      [](std::string_view weight, std::int64_t partial_width, bool bias) {
        return residual_rms(
            {.weight = to_norm_weight("residual_rms", weight), .partial_width = partial_width, .bias = bias});
      },
      nb::kw_only(), "weight"_a = "gamma", "partial_width"_a = 64, "bias"_a = false,
      "x = acc (+ bias) + residual; h = x * gamma; sum_sq = partial sums of x^2 over each `partial_width` columns.\n"
      "weight: 'gamma', 'one_plus_gamma' or 'none' (then no h).");
  m.def(
      "epilogue_rms_entry",
      [](std::string_view weight, std::int64_t partial_width) {
        return rms_entry({.weight = to_norm_weight("rms_entry", weight), .partial_width = partial_width});
      },
      nb::kw_only(), "weight"_a = "gamma", "partial_width"_a = 64,
      "Elementwise start of a chain: x (M, d) gives h = x * gamma and sum_sq.");
  m.def(
      "epilogue_rms",
      [](std::int64_t count, double eps, bool bias) { return rms({.norm = {count, eps}, .bias = bias}); },
      nb::kw_only(), "count"_a, "eps"_a = 1e-6, "bias"_a = false,
      "out = acc * r (+ bias), r = rsqrt(sum_sq / count + eps); sum_sq: the partials residual_rms left.");
}

Gated make_gated(const std::string& gate, const std::optional<ClampedSwiglu>& clamped, bool bias, bool save_inputs) {
  return {.gate = gate, .clamped = clamped, .bias = bias, .save_inputs = save_inputs};
}

void bind_gates(nb::module_& m) {
  nb::class_<ClampedSwiglu>(m, "ClampedSwiglu", "The constants of the clamped swiglu gate.")
      .def(
          "__init__",
          [](ClampedSwiglu* self, double alpha, double beta, double limit) {
            new (self) ClampedSwiglu{alpha, beta, limit};
          },
          nb::kw_only(), "alpha"_a = ClampedSwiglu().alpha, "beta"_a = ClampedSwiglu().beta,
          "limit"_a = ClampedSwiglu().limit)
      .def_ro("alpha", &ClampedSwiglu::alpha)
      .def_ro("beta", &ClampedSwiglu::beta)
      .def_ro("limit", &ClampedSwiglu::limit);
  m.def(
      "epilogue_gated",
      [](const std::string& gate, const std::optional<ClampedSwiglu>& clamped, bool bias, bool save_inputs) {
        return gated(make_gated(gate, clamped, bias, save_inputs));
      },
      "gate"_a = "swiglu", nb::kw_only(), "clamped"_a = nb::none(), "bias"_a = false, "save_inputs"_a = false,
      "out = gate(acc0, acc1) of a pair; with `bias`, operands gate_bias and up_bias; with `save_inputs`, outputs gate "
      "and up too.");
  m.def(
      "epilogue_rms_gated",
      [](const std::string& gate, std::int64_t count, double eps, const std::optional<ClampedSwiglu>& clamped,
         bool bias, bool save_inputs) {
        return rms_gated({.norm = {count, eps}, .gated = make_gated(gate, clamped, bias, save_inputs)});
      },
      "gate"_a = "swiglu", nb::kw_only(), "count"_a, "eps"_a = 1e-6, "clamped"_a = nb::none(), "bias"_a = false,
      "save_inputs"_a = false, "gated with both accumulators multiplied by r first.");
}

void bind_ropes(nb::module_& m) {
  m.def(
      "epilogue_rope",
      [](std::int64_t head, std::int64_t width, bool interleaved, std::string_view angles, double base, double scale,
         bool bias) { return rope({make_rope("rope", head, width, interleaved, angles, base, scale), bias}); },
      nb::kw_only(), "head"_a, "width"_a = 0, "interleaved"_a = false, "angles"_a = "base", "base"_a = 10000.0,
      "scale"_a = 1.0, "bias"_a = false,
      "out = rope(acc (+ bias)). angles 'base': operand positions (M,); 'frequency': also frequencies (width/2,); "
      "'table': cos and sin (M, width/2).");
  m.def(
      "epilogue_rms_rope",
      [](std::int64_t count, double eps, std::int64_t head, std::int64_t width, bool interleaved,
         std::string_view angles, double base, double scale, bool bias) {
        return rms_rope({{count, eps}, make_rope("rms_rope", head, width, interleaved, angles, base, scale), bias});
      },
      nb::kw_only(), "count"_a, "eps"_a = 1e-6, "head"_a, "width"_a = 0, "interleaved"_a = false, "angles"_a = "base",
      "base"_a = 10000.0, "scale"_a = 1.0, "bias"_a = false, "out = rope(acc * r (+ bias)).");
  m.def(
      "epilogue_qk_norm_rope",
      [](const std::optional<std::int64_t>& count, double norm_eps, std::string_view weight, double eps,
         std::int64_t head, std::int64_t width, bool interleaved, std::string_view angles, double base, double scale,
         bool bias, bool save_inputs) {
        QkNormRope options{.rope = make_rope("qk_norm_rope", head, width, interleaved, angles, base, scale),
                           .weight = to_norm_weight("qk_norm_rope", weight),
                           .eps = eps,
                           .bias = bias,
                           .save_inputs = save_inputs};
        if (count) options.norm = DelayedRms{*count, norm_eps};
        return qk_norm_rope(options);
      },
      nb::kw_only(), "count"_a = nb::none(), "norm_eps"_a = 1e-6, "weight"_a = "gamma", "eps"_a = 1e-6, "head"_a,
      "width"_a = 0, "interleaved"_a = false, "angles"_a = "base", "base"_a = 10000.0, "scale"_a = 1.0,
      "bias"_a = false, "save_inputs"_a = false,
      "out = rope(head_norm(z) * gamma), z = acc (* r when `count` is given); gamma has one entry a column of the "
      "head.");
}

void bind_losses(nb::module_& m) {
  m.def(
      "epilogue_lse",
      [](std::int64_t partial_width, std::int64_t ignore_index, bool store_logits) {
        return lse({partial_width, ignore_index, store_logits});
      },
      nb::kw_only(), "partial_width"_a = 64, "ignore_index"_a = -100, "store_logits"_a = false,
      "lse = partial log-sum-exp over each `partial_width` columns; target = the entry at column targets[row], 0 where "
      "it is `ignore_index`.");
  m.def(
      "epilogue_rms_lse",
      [](std::int64_t count, double eps, std::int64_t partial_width, std::int64_t ignore_index, bool store_logits) {
        return rms_lse({{count, eps}, {partial_width, ignore_index, store_logits}});
      },
      nb::kw_only(), "count"_a, "eps"_a = 1e-6, "partial_width"_a = 64, "ignore_index"_a = -100,
      "store_logits"_a = false, "lse of acc * r.");
}

}  // namespace

void bind_epilogues(nb::module_& module) {
  bind_plain(module);
  bind_norms(module);
  bind_gates(module);
  bind_ropes(module);
  bind_losses(module);
  module.def(
      "epilogue_library",
      [] {
        nb::dict programs;
        for (const Entry& entry : library()) programs[entry.name.c_str()] = entry.program;
        return programs;
      },
      nb::sig("def epilogue_library() -> dict[str, Program]"), "Every program at representative options, by name.");
}

}  // namespace coda::python
