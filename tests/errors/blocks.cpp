// Every mistake src/blocks refuses, and its text; those of src/blocks/llama are in blocks_llama.cpp.
#include "coda/blocks.h"

#include <gtest/gtest.h>

#include "blocks/plain_llama.h"
#include "coda/model.h"
#include "support/error_row.h"

namespace coda {
namespace {

using testing_support::expect_errors;

Tensor zeros(std::initializer_list<std::int64_t> shape, DType dtype = DType::F32) {
  return Tensor::zeros(shape, dtype);
}

struct Fixture {
  Tensor x = zeros({3, 8}), gamma = zeros({8}), square = zeros({8, 8}), wrong = zeros({8, 9});
  RmsNorm norm{gamma};
  NormedStream stream = enter_norm(x, norm);
  Tensor wide = zeros({16, 8}), f_bias = zeros({16}), short_bias = zeros({7});
};

TEST(BlockErrors, Norms) {
  const Fixture f;
  Tensor seven = zeros({7});
  NormedStream torn = f.stream;
  torn.sum_sq = zeros({2, 1});
  NormedStream no_width{zeros({3, 0}), zeros({3, 0}), zeros({3, 1})};
  const TensorView on_gpu(f.x.view().data(), DType::F32, {3, 8}, Device{DeviceKind::Cuda, 0});
  expect_errors({
      {typeid(ValueError), "enter_norm: x has shape [8], expected [any, any] (T, d)",
       [&] { enter_norm(f.gamma, f.norm); }},
      {typeid(ValueError), "enter_norm: x has shape [3, 0], expected at least one column: a norm needs a width",
       [&] { enter_norm(zeros({3, 0}), f.norm); }},
      {typeid(ValueError), "enter_norm: norm.weight has shape [7], expected [8] (the width that is normalised)",
       [&] { enter_norm(f.x, RmsNorm{seven}); }},
      {typeid(ValueError), "enter_norm: norm.weight is on cpu, expected cuda:0, the device of x: copy it there",
       [&] { enter_norm(on_gpu, f.norm); }},
      {typeid(ValueError), "residual_norm: x is on cuda:0, expected cpu, the device of y: copy it there",
       [&] { residual_norm(f.x, f.square, on_gpu, f.norm); }},
      {typeid(ValueError),
       "enter_norm: x of shape [3, 8] has no memory, expected a pointer to its elements: allocate it "
       "first",
       [&] { enter_norm(TensorView(nullptr, DType::F32, {3, 8}), f.norm); }},
      {typeid(ValueError), "residual_norm: weight has shape [8, 9], expected [any, 8] (d, k, the columns of y)",
       [&] { residual_norm(f.x, f.wrong, f.x, f.norm); }},
      {typeid(ValueError), "residual_norm: weight has shape [0, 8], expected at least one row: a norm needs a width",
       [&] { residual_norm(f.x, zeros({0, 8}), f.x, f.norm); }},
      {typeid(ValueError), "residual_norm: x has shape [4, 8], expected [3, 8] (T, d)",
       [&] { residual_norm(f.x, f.square, zeros({4, 8}), f.norm); }},
      {typeid(ValueError), "residual_norm: bias has shape [7], expected [8] (d)",
       [&] { residual_norm(f.x, f.square, f.x, f.norm, f.short_bias.view()); }},
      {typeid(ValueError), "residual_norm: next.weight has shape [7], expected [8] (the width that is normalised)",
       [&] { residual_norm(f.x, f.square, f.x, RmsNorm{seven}); }},
      {typeid(ValueError), "norm_linear: stream.sum_sq has shape [2, 1], expected [3, any] (T, partials)",
       [&] { norm_linear(torn, f.norm, f.square); }},
      {typeid(ValueError), "norm_linear: stream.x has shape [3, 0], expected at least one column: a norm needs a width",
       [&] { norm_linear(no_width, f.norm, f.square); }},
      {typeid(ValueError), "norm_linear: weight has shape [8, 9], expected [any, 8] (n, d, the width of the stream)",
       [&] { norm_linear(f.stream, f.norm, f.wrong); }},
      {typeid(ValueError), "norm_linear: bias has shape [7], expected [8] (n, the rows of weight)",
       [&] { norm_linear(f.stream, f.norm, f.square, f.short_bias.view()); }},
  });
}

TEST(BlockErrors, GatedMlp) {
  const Fixture f;
  expect_errors({
      {typeid(ValueError), "gated_mlp: gate_weight has shape [8, 9], expected [any, 8] (f, d, the width of the stream)",
       [&] { gated_mlp(f.stream, f.norm, f.wrong, f.wide); }},
      {typeid(ValueError),
       "gated_mlp: up_weight has shape [8, 8], expected [16, 8] (f, the rows of gate_weight, d, the width of the "
       "stream)",
       [&] { gated_mlp(f.stream, f.norm, f.wide, f.square); }},
      {typeid(ValueError), "gated_mlp: gate_bias has shape [7], expected [16] (f, the rows of gate_weight)",
       [&] { gated_mlp(f.stream, f.norm, f.wide, f.wide, "swiglu", f.short_bias.view(), f.f_bias.view()); }},
      {typeid(ValueError), "gated_mlp: up_bias is missing, expected both biases or neither: give zeros for the other",
       [&] { gated_mlp(f.stream, f.norm, f.wide, f.wide, "swiglu", f.f_bias.view()); }},
  });
}

TEST(BlockErrors, QkvRope) {
  const Fixture f;
  epilogues::Rope rope;
  rope.head = 8;
  QkvWeights weights{f.square, f.square, f.square, {}, {}, {}, {}, {}};
  QkvWeights narrow = weights, normed = weights, biased = weights;
  const TensorView positions(f.x.view().data(), DType::I32, {3}, Device{DeviceKind::Cuda, 0});
  narrow.v = f.wrong;
  biased.k_bias = f.short_bias;
  normed.q_norm = RmsNorm{f.f_bias};
  const auto with_angles = [&](epilogues::Rope::Angles angles) {
    return [=] {
      epilogues::Rope changed = rope;
      changed.angles = angles;
      qkv_rope(f.stream, f.norm, weights, changed, {});
    };
  };
  using Angles = epilogues::Rope::Angles;
  expect_errors({
      {typeid(ValueError), "qkv_rope: v has shape [8, 9], expected [any, 8] (heads·head, d, the width of the stream)",
       [&] { qkv_rope(f.stream, f.norm, narrow, rope, {}); }},
      {typeid(ValueError), "qkv_rope: k_bias has shape [7], expected [8] (heads·head)",
       [&] { qkv_rope(f.stream, f.norm, biased, rope, {}); }},
      {typeid(ValueError), "qkv_rope: q_norm.weight has shape [16], expected [8] (the width that is normalised)",
       [&] { qkv_rope(f.stream, f.norm, normed, rope, {}); }},
      {typeid(ValueError), "qkv_rope: positions is on cuda:0, expected cpu, the device of stream.x: copy it there",
       [&] { qkv_rope(f.stream, f.norm, weights, rope, {positions, {}, {}, {}}); }},
      {typeid(ValueError), "qkv_rope: positions is missing, expected a tensor: rope.angles is Base",
       with_angles(Angles::Base)},
      {typeid(ValueError), "qkv_rope: positions is missing, expected a tensor: rope.angles is Frequency",
       with_angles(Angles::Frequency)},
      {typeid(ValueError), "qkv_rope: cos is missing, expected a tensor: rope.angles is Table",
       with_angles(Angles::Table)},
  });
}

TEST(BlockErrors, CausalAttention) {
  const Fixture f;
  const TensorView on_gpu(f.x.view().data(), DType::F32, {3, 8}, Device{DeviceKind::Cuda, 0});
  expect_errors({
      {typeid(ValueError),
       "causal_attention: got 3 heads and 2 kv_heads, expected heads to be a multiple of kv_heads, both above 0",
       [&] { causal_attention(f.x, f.x, f.x, 3, 2); }},
      {typeid(ValueError),
       "causal_attention: q has shape [3, 8], expected columns that are a multiple of heads = 3: every head is whole",
       [&] { causal_attention(f.x, f.x, f.x, 3, 1); }},
      {typeid(ValueError), "causal_attention: k has shape [3, 8], expected [any, 4] (S, kv_heads·head)",
       [&] { causal_attention(f.x, f.x, f.x, 2, 1); }},
      {typeid(ValueError), "causal_attention: v has shape [8, 8], expected [3, 8] (S, the rows of k, kv_heads·head)",
       [&] { causal_attention(f.x, f.x, f.square, 2, 2); }},
      {typeid(ValueError),
       "causal_attention: k has 3 rows and q has 8, expected at least as many keys as queries: the last query sees the "
       "last key",
       [&] { causal_attention(f.square, f.x, f.x, 2, 2); }},
      {typeid(TypeError), "causal_attention: q has dtype i32, expected f32, bf16 or f16",
       [&] { causal_attention(zeros({3, 8}, DType::I32), f.x, f.x, 2, 2); }},
      {typeid(TypeError), "causal_attention: q, k and v have dtypes f32, bf16 and f32, expected one for all",
       [&] { causal_attention(f.x, zeros({3, 8}, DType::BF16), f.x, 2, 2); }},
      {typeid(ValueError), "causal_attention: k is on cuda:0, expected cpu, the device of q: copy it there",
       [&] { causal_attention(f.x, on_gpu, f.x, 2, 2); }},
      {typeid(ValueError), "causal_attention: scale is -1, expected a number from 1e-30 to 1e30, or 0 for 1/√head",
       [&] { causal_attention(f.x, f.x, f.x, 2, 2, -1); }},
  });
}

TEST(BlockErrors, LmHeadLoss) {
  const Fixture f;
  Tensor targets = zeros({3}, DType::I32), outside = zeros({3}, DType::I64);
  const TensorView on_gpu(targets.view().data(), DType::I32, {3}, Device{DeviceKind::Cuda, 1});
  outside.data<std::int64_t>()[1] = 16;
  Tensor ignored = zeros({3}, DType::I32);
  ignored.data<std::int32_t>()[2] = -100;
  expect_errors({
      {typeid(ValueError), "lm_head_loss: weight has shape [8, 9], expected [any, 8] (V, d, the width of the stream)",
       [&] { lm_head_loss(f.stream, f.norm, f.wrong, targets); }},
      {typeid(ValueError), "lm_head_loss: weight has shape [0, 8], expected at least one row: the vocabulary is empty",
       [&] { lm_head_loss(f.stream, f.norm, zeros({0, 8}), targets); }},
      {typeid(ValueError), "lm_head_loss: targets has shape [4], expected [3] (T)",
       [&] { lm_head_loss(f.stream, f.norm, f.wide, zeros({4}, DType::I32)); }},
      {typeid(TypeError), "lm_head_loss: targets has dtype f32, expected i32 or i64: it holds token numbers",
       [&] { lm_head_loss(f.stream, f.norm, f.wide, zeros({3})); }},
      {typeid(ValueError), "lm_head_loss: targets is on cuda:1, expected cpu, the device of stream.x: copy it there",
       [&] { lm_head_loss(f.stream, f.norm, f.wide, on_gpu); }},
      {typeid(IndexError),
       "lm_head_loss: target 16 in row 1 is outside the vocabulary, expected 0 to 15 or ignore_index -100",
       [&] { lm_head_loss(f.stream, f.norm, f.wide, outside); }},
      {typeid(IndexError),
       "lm_head_loss: target -100 in row 2 is outside the vocabulary, expected 0 to 15 or ignore_index -1",
       [&] { lm_head_loss(f.stream, f.norm, f.wide, ignored, LossReduction::Mean, -1); }},
  });
}

TEST(BlockErrors, TransformerLayer) {
  const Fixture f;
  LayerWeights weights;
  weights.input_norm = weights.post_norm = f.norm;
  weights.qkv = {f.square, f.square, f.square, {}, {}, {}, {}, {}};
  weights.o = f.square;
  weights.gate = weights.up = f.wide;
  weights.down = f.square;
  LayerConfig config{2, 2, 4, {}, "swiglu"};
  config.rope.head = 4;
  const auto changed = [&](auto change) {
    return [&, change] {
      LayerConfig c = config;
      LayerWeights w = weights;
      KvCache cache;
      change(c, w, cache);
      transformer_layer(f.stream, w, c, {}, f.norm, &cache);
    };
  };
  using C = LayerConfig;
  using W = LayerWeights;
  using K = KvCache;
  const Tensor narrow = zeros({4, 8}), sixteen = zeros({8, 16});
  weights.down = sixteen;
  expect_errors({
      {typeid(ValueError), "transformer_layer: config has heads 2, kv_heads 2, head 0, expected all above 0",
       changed([](C& c, W&, K&) { c.head = 0; })},
      {typeid(ValueError), "transformer_layer: config.heads 2 is no multiple of config.kv_heads 3",
       changed([](C& c, W&, K&) { c.kv_heads = 3; })},
      {typeid(ValueError), "transformer_layer: config.rope.head is 8, expected 4 (config.head)",
       changed([](C& c, W&, K&) { c.rope.head = 8; })},
      {typeid(ValueError),
       "transformer_layer: weights.qkv.k has shape [4, 8], expected [8, 8] (kv_heads·head, d, the width of the stream)",
       changed([&](C&, W& w, K&) { w.qkv.k = narrow; })},
      {typeid(ValueError),
       "transformer_layer: weights.qkv.q_norm has shape [8], expected [4] (the width that is "
       "normalised)",
       changed([&](C&, W& w, K&) { w.qkv.q_norm = f.norm; })},
      {typeid(ValueError),
       "transformer_layer: weights.down has shape [8, 8], expected [8, 16] (d, the width of the stream, f, the rows of "
       "gate)",
       changed([&](C&, W& w, K&) { w.down = f.square; })},
      {typeid(ValueError),
       "transformer_layer: cache.v has shape [4, 8], expected [5, 8] (capacity of cache.k, "
       "kv_heads·head)",
       changed([](C&, W&, K& k) { k = {zeros({5, 8}), zeros({4, 8}), 0}; })},
      {typeid(TypeError), "transformer_layer: cache has dtypes bf16 and f32, expected f32, the stream's",
       changed([](C&, W&, K& k) { k = {zeros({5, 8}, DType::BF16), zeros({5, 8}), 0}; })},
      {typeid(ValueError), "transformer_layer: cache of capacity 5 holds 3 tokens and gets 3 more: make it larger",
       changed([](C&, W&, K& k) { k = {zeros({5, 8}), zeros({5, 8}), 3}; })},
  });
}

// A mistake inside a layer leaves the cache as it was.
TEST(BlockErrors, CacheKeepsItsLength) {
  const Fixture f;
  LayerWeights weights;
  weights.input_norm = weights.post_norm = f.norm;
  weights.qkv = {f.square, f.square, f.square, {}, {}, {}, {}, {}};
  weights.o = f.square;
  weights.gate = weights.up = f.wide;
  const Tensor down = zeros({8, 16});
  weights.down = down;
  LayerConfig config{2, 2, 4, {}, "no such gate"};
  config.rope.head = 4;
  const RopeTensors rope{zeros({3}, DType::I32).view(), {}, {}, {}};
  KvCache cache{zeros({9, 8}), zeros({9, 8}), 2};
  EXPECT_THROW(transformer_layer(f.stream, weights, config, rope, f.norm, &cache), ValueError);
  EXPECT_EQ(cache.length, 2);
}

}  // namespace
}  // namespace coda
