// A decoder layer for training: the blocks one after the other, and back.
#include "blocks/transformer_layer.h"

#include <set>

#include "blocks/qkv_rope.h"
#include "blocks/training/gradients.h"
#include "core/check.h"

namespace coda {
namespace {

MlpWeights mlp_of(const LayerWeights& weights, const LayerConfig& config) {
  return {weights.gate, weights.up, weights.gate_bias, weights.up_bias, config.gate};
}

AttentionShape attention_of(const LayerConfig& config, const LayerTraining& training) {
  return {config.heads, config.kv_heads, training.sequences, 0};
}

}  // namespace

std::vector<SavedItem> saved_items(const SavedLayer& saved) {
  std::set<const void*> seen;
  std::vector<SavedItem> items;
  const auto add = [&](std::string_view what, const TensorView& view) {
    if (view.data() == nullptr || !seen.insert(view.data()).second) return;
    items.push_back({what, view.size() * static_cast<std::int64_t>(size_of(view.dtype()))});
  };
  add("x before attention", saved.input.x);
  add("sum of its x^2", saved.input.sum_sq);
  if (saved.qkv.qz) add("q before its norm", *saved.qkv.qz);
  if (saved.qkv.kz) add("k before its norm", *saved.qkv.kz);
  add("rotated q", saved.qkv.q);
  add("rotated k", saved.qkv.k);
  add("v", saved.qkv.v);
  add("attention's result", saved.attention.out);
  add("its log-sum-exp", saved.attention.lse);
  add("x before the MLP", saved.middle.x);
  add("sum of that x^2", saved.middle.sum_sq);
  add("gate", saved.mlp.gate);
  add("up", saved.mlp.up);
  add("gated activation", saved.mlp.y);
  return items;
}

std::int64_t saved_bytes(const SavedLayer& saved) {
  std::int64_t bytes = 0;
  for (const SavedItem& item : saved_items(saved)) bytes += item.bytes;
  return bytes;
}

NormedStream transformer_layer_saved(const NormedStream& stream, const LayerWeights& weights, const LayerConfig& config,
                                     const RopeTensors& rope, const RmsNorm& next_norm, const LayerTraining& training,
                                     SavedLayer& saved, const Execution& where) {
  const Caller caller = require_stream("transformer_layer_saved", stream);
  require_layer(caller, weights, config, stream.x.view().shape(1));
  saved.input = saved_stream(stream, training.policy, where);
  saved.qkv = qkv_rope_kept(caller, stream, weights.input_norm, weights.qkv, config.rope, rope, where);
  saved.attention =
      causal_attention_saved(saved.qkv.q, saved.qkv.k, saved.qkv.v, attention_of(config, training), where);
  const NormedStream middle =
      residual_norm(saved.attention.out, weights.o, stream.x, weights.post_norm, weights.o_bias, where);
  saved.middle = saved_stream(middle, training.policy, where);
  saved.mlp = gated_mlp_saved(middle, weights.post_norm, mlp_of(weights, config), where);
  NormedStream result = residual_norm(saved.mlp.y, weights.down, middle.x, next_norm, weights.down_bias, where);
  if (training.policy == SavedPolicy::Lean) saved.mlp.y = {};
  return result;
}

StreamGradient transformer_layer_backward(const StreamGradient& gradient, const SavedStream& output,
                                          const SavedLayer& saved, const LayerWeights& weights,
                                          const LayerConfig& config, const RopeTensors& rope, const RmsNorm& next_norm,
                                          const LayerTraining& training, const LayerGradients& into,
                                          const Execution& where) {
  const Caller caller = require_saved("transformer_layer_backward", saved.input);
  require_layer(caller, weights, config, saved.input.x.view().shape(1));
  require_main(caller, "o", into.o, weights.o);
  require_main(caller, "down", into.down, weights.down);
  const StreamBackward result =
      stream_backward(gradient, output, next_norm, {into.next_norm, into.down_bias}, training.stream_gradient, where);
  GatedMlpBackward mlp = gated_mlp_backward(result.d_x, weights.down, saved.mlp, saved.middle, weights.post_norm,
                                            mlp_of(weights, config), into.mlp, where);
  add_weight_gradient(result.d_x, mlp.y, into.down, where);
  mlp.stream.d_x = result.residual;

  const StreamBackward middle = stream_backward(mlp.stream, saved.middle, weights.post_norm,
                                                {into.post_norm, into.o_bias}, training.stream_gradient, where);
  add_weight_gradient(middle.d_x, saved.attention.out, into.o, where);
  const SavedQkv& qkv = saved.qkv;
  const Qkv d = causal_attention_backward(linear_backward(middle.d_x, weights.o, where), qkv.q, qkv.k, qkv.v,
                                          saved.attention, attention_of(config, training), where);
  StreamGradient start = qkv_rope_backward(d.q, d.k, d.v, qkv, saved.input, weights.input_norm, weights.qkv,
                                           config.rope, rope, into.qkv, where);
  start.d_x = middle.residual;
  return start;
}

}  // namespace coda
