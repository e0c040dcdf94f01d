// Every program of the library at representative options. A program or option added here is checked by every test that
// loops over library(), and gets a golden text.
#include "coda/epilogues.h"

namespace coda::epilogues {
namespace {

using Entries = std::vector<Entry>;
using Angles = Rope::Angles;

// Widths of SmolLM2-135M: model 576, head 64.
constexpr DelayedRms kNorm{.count = 576, .eps = 1e-5};
constexpr std::int64_t kHead = 64;

struct NamedWeight {
  std::string suffix;
  NormWeight weight;
};
const NamedWeight kWeights[]{
    {"", NormWeight::Gamma}, {"_one_plus_gamma", NormWeight::OnePlusGamma}, {"_no_weight", NormWeight::None}};

struct NamedRope {
  std::string suffix;
  Rope rope;
};
const NamedRope kRopes[]{
    {"", {.head = kHead}},
    {"_interleaved", {.head = kHead, .interleaved = true}},
    {"_partial", {.head = 80, .width = 32}},
    {"_partial_interleaved", {.head = 80, .width = 32, .interleaved = true}},
    {"_base_scale", {.head = 128, .base = 500000, .scale = 0.875}},
    {"_frequency", {.head = kHead, .angles = Angles::Frequency}},
    {"_frequency_partial_scale", {.head = 96, .width = 64, .angles = Angles::Frequency, .scale = 1.25}},
    {"_table", {.head = kHead, .angles = Angles::Table}},
    {"_table_interleaved_scale", {.head = kHead, .interleaved = true, .angles = Angles::Table, .scale = 1.25}},
};

void add_plain(Entries& entries) {
  entries.push_back({"identity", identity()});
  entries.push_back({"bias", bias()});
  for (const Activation& activation : activations())
    entries.push_back({"bias_" + std::string(activation.name), bias(std::string(activation.name))});
  entries.push_back({"scale", scale()});
  entries.push_back({"residual", residual()});
  entries.push_back({"sigmoid", sigmoid()});
}

void add_norms(Entries& entries) {
  for (const auto& [suffix, weight] : kWeights) {
    entries.push_back({"rms_entry" + suffix, rms_entry({.weight = weight})});
    entries.push_back({"residual_rms" + suffix, residual_rms({.weight = weight})});
  }
  entries.push_back({"residual_rms_wide_partials", residual_rms({.partial_width = 256})});
  entries.push_back({"residual_rms_bias", residual_rms({.bias = true})});
  entries.push_back({"rms", rms({kNorm})});
  entries.push_back({"rms_bias", rms({kNorm, true})});
}

void add_gated(Entries& entries) {
  for (const Gate& row : gates()) {
    const std::string gate(row.name);
    entries.push_back({gate, gated({.gate = gate})});
    entries.push_back({"rms_" + gate, rms_gated({kNorm, {.gate = gate}})});
  }
  const ClampedSwiglu tight{.alpha = 1.5, .beta = 0.5, .limit = 2.0};
  entries.push_back({"clamped_swiglu_tight", gated({.clamped = tight})});
  entries.push_back({"swiglu_bias", gated({.bias = true})});
  entries.push_back({"swiglu_saved", gated({.save_inputs = true})});
  entries.push_back({"rms_swiglu_bias_saved", rms_gated({kNorm, {.bias = true, .save_inputs = true}})});
  entries.push_back({"rms_clamped_swiglu_tight_bias", rms_gated({kNorm, {.clamped = tight, .bias = true}})});
}

void add_ropes(Entries& entries) {
  for (const auto& [suffix, options] : kRopes) {
    entries.push_back({"rope" + suffix, rope({options})});
    entries.push_back({"rms_rope" + suffix, rms_rope({kNorm, options})});
  }
  entries.push_back({"rope_bias", rope({kRopes[0].rope, true})});
  entries.push_back({"rms_rope_bias", rms_rope({kNorm, kRopes[0].rope, true})});
}

void add_qk_norms(Entries& entries) {
  const auto add = [&](const std::string& name, const QkNormRope& options) {
    entries.push_back({name, qk_norm_rope(options)});
  };
  const Rope whole{.head = kHead}, partial = kRopes[2].rope, table{.head = kHead, .angles = Angles::Table};
  add("qk_norm_rope", {.rope = whole});
  add("qk_norm_rope_no_weight", {.rope = whole, .weight = NormWeight::None});
  add("qk_norm_rope_partial_saved", {.rope = partial, .save_inputs = true});
  add("rms_qk_norm_rope", {.norm = kNorm, .rope = whole});
  add("rms_qk_norm_rope_one_plus_gamma", {.norm = kNorm, .rope = whole, .weight = NormWeight::OnePlusGamma});
  add("rms_qk_norm_rope_table_bias_saved", {.norm = kNorm, .rope = table, .bias = true, .save_inputs = true});
}

void add_losses(Entries& entries) {
  entries.push_back({"lse", lse()});
  entries.push_back({"lse_logits", lse({.store_logits = true})});
  entries.push_back({"rms_lse", rms_lse({kNorm, {}})});
  entries.push_back(
      {"rms_lse_logits", rms_lse({kNorm, {.partial_width = 128, .ignore_index = 0, .store_logits = true}})});
}

Entries make_library() {
  Entries entries;
  add_plain(entries);
  add_norms(entries);
  add_gated(entries);
  add_ropes(entries);
  add_qk_norms(entries);
  add_losses(entries);
  return entries;
}

}  // namespace

const std::vector<Entry>& library() {
  static const Entries entries = make_library();
  return entries;
}

}  // namespace coda::epilogues
