// Every mistake src/blocks/training refuses, and its text; that of loss_and_gradients too.
#include <gtest/gtest.h>

#include "blocks/plain_llama.h"
#include "coda/model.h"
#include "coda/training.h"
#include "support/error_row.h"

namespace coda {
namespace {

using epilogues::NormWeight;
using testing_support::expect_errors;
using testing_support::PlainLlama;
using testing_support::random_llama;

Tensor zeros(std::initializer_list<std::int64_t> shape, DType dtype = DType::F32) {
  return Tensor::zeros(shape, dtype);
}

struct Fixture {
  Tensor x = zeros({3, 8}), gamma = zeros({8}), square = zeros({8, 8}), wrong = zeros({8, 9}), wide = zeros({3, 16});
  Tensor tall = zeros({16, 8}), down = zeros({8, 16}), seven = zeros({7}), halves = zeros({8, 8}, DType::BF16);
  Tensor integers = zeros({8, 8}, DType::I32);
  RmsNorm norm{gamma};
  NormedStream stream = enter_norm(x, norm);
  SavedStream saved = saved_stream(stream);
  StreamGradient gradient = norm_linear_backward(x, x, saved, norm, square);
  MlpWeights mlp{tall, tall, {}, {}, "swiglu"};
  GatedMlp gated{wide, wide, wide};
};

TEST(TrainingErrors, Streams) {
  const Fixture f;
  RmsNorm none;
  none.kind = NormWeight::None;
  SavedStream torn{f.x, zeros({2, 1})};
  const auto with = [&](const std::function<void(StreamGradient&)>& change) {
    return [&f, change] {
      StreamGradient gradient = f.gradient;
      change(gradient);
      stream_backward(gradient, f.saved, f.norm);
    };
  };
  const auto into = [&](const Tensor& norm_weight, const MainGradient& bias = {}) {
    return [&f, norm_weight, bias] { stream_backward(f.gradient, f.saved, f.norm, {norm_weight.view(), bias}); };
  };
  expect_errors({
      {typeid(ValueError), "stream_backward: stream.sum_sq has shape [2, 1], expected [3, any] (T, partials)",
       [&] { stream_backward(f.gradient, torn, f.norm); }},
      {typeid(ValueError), "stream_backward: norm.weight has shape [7], expected [8] (the width that is normalised)",
       [&] { stream_backward(f.gradient, f.saved, RmsNorm{f.seven}); }},
      {typeid(ValueError), "stream_backward: gradient has 1 dz and 0 weights, expected one weight for each dz",
       with([](StreamGradient& g) { g.weights.clear(); })},
      {typeid(ValueError), "stream_backward: gradient has neither dz nor d_h, expected one of them",
       with([](StreamGradient& g) { g.dz.clear(), g.weights.clear(); })},
      {typeid(ValueError), "stream_backward: gradient has dz and d_h, expected one of them",
       with([&](StreamGradient& g) { g.d_h = f.x; })},
      {typeid(ValueError), "stream_backward: gradient.dz[0] has shape [8, 8], expected [3, any] (T, n)",
       with([&](StreamGradient& g) { g.dz[0] = f.square; })},
      {typeid(ValueError),
       "stream_backward: gradient.weights[0] has shape [8, 9], expected [8, 8] (n, the columns of dz, d)",
       with([&](StreamGradient& g) { g.weights[0] = f.wrong; })},
      {typeid(ValueError), "stream_backward: gradient.d_x has shape [8, 8], expected [3, 8] (T, d)",
       with([&](StreamGradient& g) { g.d_x = f.square; })},
      {typeid(ValueError), "stream_backward: gradient.sums[0].s has shape [8, 8], expected [3, any] (T, partials)",
       with([&](StreamGradient& g) { g.sums[0].s = f.square; })},
      {typeid(ValueError), "stream_backward: gradient has no sums, expected what the readers left",
       with([](StreamGradient& g) { g.sums.clear(); })},
      {typeid(ValueError), "stream_backward: into.norm_weight is given, but the norm has no weight: leave it out",
       [&] { stream_backward(f.gradient, f.saved, none, {f.gamma.view(), {}}); }},
      {typeid(ValueError),
       "stream_backward: into.norm_weight has shape [7], expected [8], that of the parameter: its gradient is added "
       "to it",
       into(f.seven)},
      {typeid(TypeError), "stream_backward: into.norm_weight has dtype bf16, expected f32",
       into(zeros({8}, DType::BF16))},
      {typeid(ValueError),
       "stream_backward: into.bias has shape [7], expected [8], that of the parameter: its gradient is added to it",
       into(f.gamma, f.seven.view())},
  });
}

TEST(TrainingErrors, Linears) {
  const Fixture f;
  expect_errors({
      {typeid(ValueError), "linear_backward: weight has shape [16, 8], expected [8, any] (n, the columns of d_out, k)",
       [&] { linear_backward(f.x, f.tall); }},
      {typeid(ValueError), "add_weight_gradient: y has shape [8, 8], expected [3, any] (T, k)",
       [&] { add_weight_gradient(f.x, f.square, f.square); }},
      {typeid(ValueError),
       "add_weight_gradient: into has shape [8, 9], expected [8, 8] (n, the columns of d_out, k, the columns of y)",
       [&] { add_weight_gradient(f.x, f.x, f.wrong); }},
      {typeid(ValueError), "norm_linear_backward: d_out has shape [3, 16], expected [3, 8] (T, n, the rows of weight)",
       [&] { norm_linear_backward(f.wide, f.x, f.saved, f.norm, f.square); }},
      {typeid(ValueError), "norm_linear_backward: out has shape [3, 16], expected [3, 8] (T, n, the rows of weight)",
       [&] { norm_linear_backward(f.x, f.wide, f.saved, f.norm, f.square); }},
      {typeid(ValueError), "norm_linear_backward: into.bias is given, but there is no bias",
       [&] { norm_linear_backward(f.x, f.x, f.saved, f.norm, f.square, {}, {{}, f.gamma.view()}); }},
      {typeid(TypeError), "norm_linear_backward: into.weight has dtype i32, expected f32",
       [&] { norm_linear_backward(f.x, f.x, f.saved, f.norm, f.square, {}, {f.integers.view(), {}}); }},
      {typeid(TypeError), "norm_linear_backward: into.weight has dtype i32, expected f32 or bf16, the parameter's",
       [&] { norm_linear_backward(f.x, f.x, f.saved, f.norm, f.halves, {}, {f.integers.view(), {}}); }},
  });
}

TEST(TrainingErrors, GatedMlp) {
  const Fixture f;
  const auto run = [&](const Tensor& d_out, const Tensor& down, const GatedMlp& saved, const MlpGradients& into = {}) {
    return [&f, d_out, down, saved, into] { gated_mlp_backward(d_out, down, saved, f.saved, f.norm, f.mlp, into); };
  };
  expect_errors({
      {typeid(ValueError),
       "gated_mlp_backward: down has shape [8, 8], expected [any, 16] (n, f, the rows of gate_weight)",
       run(f.x, f.square, f.gated)},
      {typeid(ValueError), "gated_mlp_backward: d_out has shape [3, 16], expected [3, 8] (T, n, the rows of down)",
       run(f.wide, f.down, f.gated)},
      {typeid(ValueError),
       "gated_mlp_backward: saved.up has shape [3, 8], expected [3, 16] (T, f, the rows of gate_weight)",
       run(f.x, f.down, {f.wide, f.wide, f.x})},
      {typeid(ValueError), "gated_mlp_backward: into.up_bias is given, but there are no biases",
       run(f.x, f.down, f.gated, {{}, {}, {}, f.gamma.view()})},
  });
}

TEST(TrainingErrors, QkvRope) {
  const Fixture f;
  QkvWeights weights{f.square, f.square, f.square, {}, {}, {}, {}, {}};
  const epilogues::Rope rope{.head = 8};
  const Qkv d{f.x, f.x, f.x};
  const SavedQkv saved{f.x, f.x, f.x, {}, {}};
  const auto run = [&](const Qkv& gradients, const QkvWeights& w, const QkvGradients& into = {}) {
    return [&, gradients, w, into] {
      qkv_rope_backward(gradients.q, gradients.k, gradients.v, saved, f.saved, f.norm, w, rope, {}, into);
    };
  };
  QkvWeights normed = weights;
  normed.k_norm = f.norm;
  QkvGradients norm_alone, bias_alone;
  norm_alone.q_norm = f.gamma;
  bias_alone.v_bias = f.gamma;
  expect_errors({
      {typeid(ValueError), "qkv_rope_backward: d_k has shape [3, 16], expected [3, 8] (T, the rows of its weight)",
       run({f.x, f.wide, f.x}, weights)},
      {typeid(ValueError),
       "qkv_rope_backward: saved.kz is missing, expected what qkv_rope_saved kept of a projection with a "
       "norm",
       run(d, normed)},
      {typeid(ValueError),
       "qkv_rope_backward: into.q_norm is given, but there is no such norm with a weight: leave it out",
       run(d, weights, norm_alone)},
      {typeid(ValueError), "qkv_rope_backward: into.v_bias is given, but there is no such bias: leave it out",
       run(d, weights, bias_alone)},
      {typeid(ValueError), "qkv_rope_backward: positions is missing, expected a tensor: rope.angles is Base",
       run(d, weights)},
  });
}

TEST(TrainingErrors, Attention) {
  const Fixture f;
  const AttentionShape shape{2, 2};
  const SavedAttention saved{f.x, zeros({3, 2})};
  expect_errors({
      {typeid(ValueError),
       "causal_attention_saved: got 3 heads and 2 kv_heads, expected heads to be a multiple of kv_heads, both above 0",
       [&] { causal_attention_saved(f.x, f.x, f.x, {3, 2}); }},
      {typeid(ValueError), "causal_attention_saved: k has 8 rows, expected 3, those of q: training has no cache",
       [&] { causal_attention_saved(f.x, f.square, f.square, shape); }},
      {typeid(ValueError),
       "causal_attention_saved: q has 3 rows, expected a multiple of 2 sequences, at least 1, of equal length",
       [&] { causal_attention_saved(f.x, f.x, f.x, {2, 2, 2}); }},
      {typeid(ValueError), "causal_attention_backward: d_out has shape [3, 16], expected [3, 8] (T, heads·head)",
       [&] { causal_attention_backward(f.wide, f.x, f.x, f.x, saved, shape); }},
      {typeid(ValueError), "causal_attention_backward: saved.lse has shape [3, 8], expected [3, 2] (T, heads)",
       [&] { causal_attention_backward(f.x, f.x, f.x, f.x, {f.x, f.x}, shape); }},
      {typeid(TypeError), "causal_attention_backward: d_out has dtype bf16, expected f32, that of q",
       [&] { causal_attention_backward(zeros({3, 8}, DType::BF16), f.x, f.x, f.x, saved, shape); }},
      {typeid(TypeError), "causal_attention_backward: saved.out has dtype bf16, expected f32, that of q",
       [&] { causal_attention_backward(f.x, f.x, f.x, f.x, {zeros({3, 8}, DType::BF16), saved.lse}, shape); }},
      {typeid(TypeError),
       "causal_attention_backward: saved.lse has dtype bf16, expected f32, as causal_attention_saved left it",
       [&] { causal_attention_backward(f.x, f.x, f.x, f.x, {f.x, zeros({3, 2}, DType::BF16)}, shape); }},
  });
}

TEST(TrainingErrors, Head) {
  const Fixture f;
  std::int64_t numbers[] = {1, 8, 2};
  const TensorView targets(numbers, DType::I64, {3});
  const auto run = [&](const HeadOptions& options, const MainGradient& into = {}) {
    return [&f, targets, options, into] { lm_head_loss_backward(f.stream, f.norm, f.square, targets, options, into); };
  };
  expect_errors({
      {typeid(ValueError),
       "lm_head_loss_backward: options.reduction is None, expected Mean or Sum: a gradient is that of one number",
       run({.reduction = LossReduction::None})},
      {typeid(ValueError),
       "lm_head_loss_backward: options.chunk_tokens is 96, expected a multiple of 64, or 0 for a choice by memory",
       run({.chunk_tokens = 96})},
      {typeid(IndexError),
       "lm_head_loss_backward: target 8 in row 1 is outside the vocabulary, expected 0 to 7 or ignore_index -100",
       run({})},
      {typeid(ValueError),
       "lm_head_loss_backward: into.weight has shape [8, 9], expected [8, 8], that of the parameter: its gradient is "
       "added to it",
       run({}, f.wrong.view())},
  });
}

TEST(TrainingErrors, Layer) {
  const Fixture f;
  LayerWeights weights;
  weights.input_norm = weights.post_norm = f.norm;
  weights.qkv = {f.square, f.square, f.square, {}, {}, {}, {}, {}};
  weights.o = f.square;
  weights.gate = weights.up = f.tall;
  weights.down = f.down;
  const LayerConfig config{1, 1, 8, {.head = 8}, "swiglu"};
  LayerConfig torn = config;
  torn.heads = 0;
  SavedLayer saved;
  saved.input = f.saved;
  expect_errors({
      {typeid(ValueError), "transformer_layer_saved: config has heads 0, kv_heads 1, head 8, expected all above 0",
       [&] { transformer_layer_saved(f.stream, weights, torn, {}, f.norm, {}, saved); }},
      {typeid(ValueError),
       "transformer_layer_backward: into.down has shape [8, 9], expected [8, 16], that of the parameter: its gradient "
       "is added to it",
       [&] {
         LayerGradients into;
         into.down = f.wrong;
         transformer_layer_backward(f.gradient, f.saved, saved, weights, config, {}, f.norm, {}, into);
       }},
  });
}

TEST(TrainingErrors, Model) {
  std::mt19937_64 random(1);
  const PlainLlama llama = random_llama(random, {});
  const LlamaModel model(llama.config, llama.operands());
  std::int64_t numbers[] = {1, 2, 53};
  const TensorView three(numbers, DType::I64, {3}), two(numbers, DType::I64, {2});
  const Tensor vector = zeros({32}), halves = zeros({32}, DType::BF16);
  const auto run = [&](const TensorView& tokens, const Operands& gradients, std::int64_t sequences = 1) {
    return [&, tokens, gradients, sequences] {
      TrainingOptions options;
      options.layers.sequences = sequences;
      model.loss_and_gradients(tokens, tokens, gradients, options);
    };
  };
  expect_errors({
      {typeid(ValueError),
       "loss_and_gradients: gradient 'x' is of no tensor of the model, expected one of its 29 names, such as "
       "'model.embed_tokens.weight'",
       run(two, {{"x", vector}})},
      {typeid(ValueError),
       "loss_and_gradients: gradient 'lm_head.weight' is of no tensor of its own: the head is tied, its gradient is "
       "part of 'model.embed_tokens.weight'",
       run(two, {{"lm_head.weight", vector}})},
      {typeid(ValueError), "loss_and_gradients: gradient 'model.norm.weight' is given twice, expected each name once",
       run(two, {{"model.norm.weight", vector}, {"model.norm.weight", vector}})},
      {typeid(ValueError),
       "loss_and_gradients: gradient 'model.layers.0.mlp.up_proj.weight' has shape [32], expected [72, 32], that of "
       "the parameter: its gradient is added to it",
       run(two, {{"model.layers.0.mlp.up_proj.weight", vector}})},
      {typeid(TypeError), "loss_and_gradients: gradient 'model.norm.weight' has dtype bf16, expected f32",
       run(two, {{"model.norm.weight", halves}})},
      {typeid(ValueError),
       "loss_and_gradients: tokens has 3 entries, expected a multiple of 2 sequences, at least 1, of equal length",
       run(three, {}, 2)},
      {typeid(IndexError),
       "loss_and_gradients: target 53 in row 2 is outside the vocabulary, expected 0 to 52 or ignore_index -100",
       run(three, {})},
  });
}

}  // namespace
}  // namespace coda
