// Backwards whose texts are checked in (tests/golden) and whose gradients are checked: how each program of the library
// is differentiated in training.
#pragma once

#include <string>
#include <vector>

#include "coda/differentiate.h"
#include "coda/epilogues.h"

namespace coda::testing_support {

struct BackwardCase {
  std::string name;
  Program forward;
  std::vector<std::string> wrt;
  std::vector<Cotangent> cotangents;
  DifferentiateOptions options{};
};

inline constexpr epilogues::DelayedRms kCaseNorm{.count = 576, .eps = 1e-5};

inline void add_plain_cases(std::vector<BackwardCase>& cases) {
  using namespace epilogues;
  const Cotangent acc = Cotangent::acc("out"), load = Cotangent::load("out");
  cases.push_back({"bias", bias(), {"acc0", "bias"}, {acc}});
  for (const Activation& activation : activations()) {
    const Program forward = with_saved(bias(std::string(activation.name)), {"z"});
    cases.push_back({forward.name(), forward, {"acc0", "bias"}, {acc, Cotangent::none("z")}});
  }
  cases.push_back({"bias_silu_recomputed", bias("silu"), {"acc0", "bias"}, {load}, {.recompute_acc = true}});
  cases.push_back({"scale", with_saved(scale(), {"acc0"}), {"acc0", "alpha"}, {acc, Cotangent::none("acc0")}});
  cases.push_back({"residual", residual(), {"acc0", "residual"}, {acc}});
  cases.push_back({"residual_summed", residual(), {"acc0", "residual"}, {acc, load}});
  cases.push_back({"sigmoid", sigmoid(), {"acc0"}, {load}});
}

inline void add_gated_cases(std::vector<BackwardCase>& cases) {
  using namespace epilogues;
  const std::vector<Cotangent> saved{Cotangent::acc("out"), Cotangent::none("gate"), Cotangent::none("up")};
  for (const Gate& gate : gates()) {
    const std::string name(gate.name);
    cases.push_back({name, gated({.gate = name, .save_inputs = true}), {"acc0", "acc1"}, saved});
  }
  const Program biased = rms_gated({kCaseNorm, {.bias = true, .save_inputs = true}});
  cases.push_back({"rms_swiglu_bias", biased, {"acc0", "acc1", "sum_sq", "gate_bias", "up_bias"}, saved});
  cases.push_back({"rms_swiglu", rms_gated({kCaseNorm, {.save_inputs = true}}), {"acc0", "acc1", "sum_sq"}, saved});
  cases.push_back({"rms_swiglu_remade",
                   rms_gated({kCaseNorm, {.save_inputs = true}}),
                   {"acc0", "acc1", "sum_sq"},
                   saved,
                   {.remade = {"out"}}});
}

inline void add_rope_cases(std::vector<BackwardCase>& cases) {
  using namespace epilogues;
  const Cotangent load = Cotangent::load("out");
  const Rope whole{.head = 64}, partial{.head = 80, .width = 32};
  const Rope interleaved{.head = 64, .interleaved = true}, table{.head = 64, .angles = Rope::Angles::Table};
  cases.push_back({"rope", rope({whole}), {"acc0"}, {load}});
  cases.push_back({"rope_interleaved", rope({interleaved}), {"acc0"}, {load}});
  cases.push_back({"rope_partial", rope({partial}), {"acc0"}, {load}});
  cases.push_back({"rope_table_bias", rope({table, true}), {"acc0", "bias"}, {load}});
  cases.push_back({"rms_rope", rms_rope({kCaseNorm, whole}), {"acc0", "sum_sq"}, {load}});
  cases.push_back({"rms_rope_bias", rms_rope({kCaseNorm, whole, true}), {"acc0", "sum_sq", "bias"}, {load}});
  const Rope scaled{.head = 64, .width = 32, .interleaved = true, .scale = 1.25};
  cases.push_back({"rms_rope_scaled", rms_rope({kCaseNorm, scaled}), {"acc0", "sum_sq"}, {load}});
  cases.push_back({"qk_norm_rope",
                   qk_norm_rope({.rope = whole, .save_inputs = true}),
                   {"acc0", "gamma"},
                   {load, Cotangent::none("z")}});
  cases.push_back({"rms_qk_norm_rope",
                   qk_norm_rope({.norm = kCaseNorm, .rope = whole, .bias = true, .save_inputs = true}),
                   {"acc0", "sum_sq", "gamma", "bias"},
                   {load, Cotangent::none("z")}});
}

/// What the backward of an rms leaves to that of the program before it.
inline Cotangent from_next_norm() {
  const Backward next = differentiate(epilogues::rms({kCaseNorm}), {"acc0", "sum_sq"}, {Cotangent::load("out")});
  return Cotangent::computed("sum_sq", *next.gradients[1].finish);
}

inline void add_norm_cases(std::vector<BackwardCase>& cases) {
  using namespace epilogues;
  const Cotangent load = Cotangent::load("out");
  cases.push_back({"rms", rms({kCaseNorm}), {"acc0", "sum_sq"}, {load}});
  cases.push_back({"rms_bias", rms({kCaseNorm, true}), {"acc0", "sum_sq", "bias"}, {load}});
  const std::vector<Cotangent> chained{Cotangent::load("x"), Cotangent::acc("h"), from_next_norm()};
  cases.push_back({"residual_rms", residual_rms(), {"acc0", "residual", "gamma"}, chained});
  cases.push_back({"residual_rms_one_plus_gamma_bias",
                   residual_rms({.weight = NormWeight::OnePlusGamma, .bias = true}),
                   {"acc0", "residual", "gamma", "bias"},
                   chained});
  cases.push_back({"residual_rms_no_weight",
                   residual_rms({.weight = NormWeight::None}),
                   {"acc0", "residual"},
                   {Cotangent::load("x"), Cotangent::acc("x"), from_next_norm()}});
  cases.push_back({"rms_entry", rms_entry(), {"x", "gamma"}, {Cotangent::acc("h"), from_next_norm()}});
}

inline void add_loss_cases(std::vector<BackwardCase>& cases) {
  using namespace epilogues;
  const std::vector<Cotangent> loss{Cotangent::load("lse"), Cotangent::load("target"), Cotangent::none("logits")};
  cases.push_back({"lse_logits", lse({.store_logits = true}), {"acc0"}, loss});
  cases.push_back({"lse_recomputed",
                   lse(),
                   {"acc0"},
                   {Cotangent::load("lse"), Cotangent::load("target")},
                   {.recompute_acc = true}});
  cases.push_back({"rms_lse_logits",
                   rms_lse({kCaseNorm, {.partial_width = 128, .ignore_index = 0, .store_logits = true}}),
                   {"acc0", "sum_sq"},
                   loss});
}

inline std::vector<BackwardCase> backward_cases() {
  std::vector<BackwardCase> cases;
  add_plain_cases(cases);
  add_gated_cases(cases);
  add_rope_cases(cases);
  add_norm_cases(cases);
  add_loss_cases(cases);
  return cases;
}

}  // namespace coda::testing_support
