// Gradients of small random LLaMA models against differences of their plain loops; policies, frozen tensors, sequences.
#include <gtest/gtest.h>

#include "blocks/plain_gradients.h"
#include "blocks/plain_llama.h"
#include "coda/gemm.h"

namespace coda {
namespace {

using testing_support::cross_entropy;
using testing_support::expect_gradient;
using testing_support::largest_of;
using testing_support::Plain;
using testing_support::plain;
using testing_support::PlainLlama;
using testing_support::PlainLlamaOptions;
using testing_support::PlainMath;
using testing_support::Plains;
using testing_support::random_llama;
using testing_support::root_mean_square;

using Gradients = std::map<std::string, Tensor>;

Gradients zeros_for(const LlamaModel& model, DType dtype = DType::F32) {
  Gradients gradients;
  for (const auto& [name, tensor] : model.parameters())
    gradients[name] = tensor.rank() == 1 ? Tensor::zeros({tensor.shape(0)}, dtype)
                                         : Tensor::zeros({tensor.shape(0), tensor.shape(1)}, dtype);
  return gradients;
}

Operands operands_of(const Gradients& gradients) {
  Operands result;
  for (const auto& [name, tensor] : gradients) result.push_back({name, tensor});
  return result;
}

class LlamaGradients : public ::testing::Test {
 protected:
  void SetUp() override { std::cout << "seed " << seed_ << "\n"; }

  void draw(const PlainLlamaOptions& options, std::int64_t count) {
    llama_ = random_llama(random_, options);
    tokens_.clear();
    targets_.clear();
    for (std::int64_t t = 0; t < count; ++t) {
      tokens_.push_back(static_cast<std::int64_t>(random_() % 53));
      targets_.push_back(t % 5 == 3 ? -100 : static_cast<std::int64_t>(random_() % 53));
    }
  }

  LlamaModel model() const { return {llama_.config, llama_.operands()}; }
  static TensorView view(std::vector<std::int64_t>& numbers) {
    return {numbers.data(), DType::I64, {static_cast<std::int64_t>(numbers.size())}};
  }
  Loss run(const LlamaModel& model, const Gradients& gradients, const TrainingOptions& options = {}) {
    return model.loss_and_gradients(view(tokens_), view(targets_), operands_of(gradients), options);
  }
  Gradients gradients(const LlamaModel& model, const TrainingOptions& options = {}, DType dtype = DType::F32) {
    Gradients result = zeros_for(model, dtype);
    run(model, result, options);
    return result;
  }

  /// Mean over the counted tokens of all sequences.
  double loss(const Plains& weights, std::int64_t sequences) const {
    PlainLlama changed = llama_;
    changed.weights = weights;
    const auto length = static_cast<std::ptrdiff_t>(tokens_.size()) / sequences;
    double sum = 0, counted = 0;
    for (std::ptrdiff_t start = 0; start < static_cast<std::ptrdiff_t>(tokens_.size()); start += length) {
      const Plain logits = changed.logits({tokens_.begin() + start, tokens_.begin() + start + length}, PlainMath{});
      for (std::int64_t t = 0; t < logits.rows; ++t) {
        const std::int64_t target = targets_[static_cast<std::size_t>(start + t)];
        if (target < 0) continue;
        sum += cross_entropy(logits, t, target);
        ++counted;
      }
    }
    return sum / counted;
  }

  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  PlainLlama llama_;
  std::vector<std::int64_t> tokens_, targets_;
};

TEST_F(LlamaGradients, AreDerivatives) {
  for (const auto& [options, sequences] :
       {std::pair(PlainLlamaOptions{}, 1), std::pair(PlainLlamaOptions{.tied_head = false, .bias = true}, 3),
        std::pair(PlainLlamaOptions{.qk_norm = true}, 2)}) {
    draw(options, 12);
    const LlamaModel llama = model();
    const Gradients got = zeros_for(llama);
    TrainingOptions training;
    training.layers.sequences = sequences;
    const Loss loss_got = run(llama, got, training);
    EXPECT_NEAR(loss_got.value, loss(llama_.weights, sequences), 1e-5);
    for (const auto& [name, gradient] : got) {
      // Keys of all tokens moved alike change a softmax only by their rotation: what is left of the weight's terms.
      const std::size_t keys_bias = name.find("k_proj.bias");
      const double scale =
          keys_bias == std::string::npos ? 0 : largest_of(plain(got.at(name.substr(0, keys_bias) + "k_proj.weight")));
      expect_gradient(
          gradient, name, llama_.weights, [&, n = sequences](const Plains& w) { return loss(w, n); }, random_, 4, 1e-4,
          scale);
    }
  }
}

TEST_F(LlamaGradients, LeanSaysTheSame) {
  draw({}, 70);
  const LlamaModel llama = model();
  const Gradients fast = gradients(llama), lean = gradients(llama, {.layers = {.policy = SavedPolicy::Lean}});
  for (const auto& [name, gradient] : fast) testing_support::expect_close(lean.at(name), plain(gradient), 2e-6);
}

// Of layers that give the stream little, as those of deep models: the embedding's gradient has gone through all sums.
TEST_F(LlamaGradients, F32StreamGradientIsNoWorse) {
  double narrow = 0, wide = 0;
  for (int drawn = 0; drawn < 4; ++drawn) {
    draw({.tied_head = false, .dtype = DType::BF16}, 70);
    for (auto& [name, weight] : llama_.weights) {
      if (!name.ends_with("o_proj.weight") && !name.ends_with("down_proj.weight")) continue;
      for (double& value : weight.values) value /= 16;
      llama_.update(name);
    }
    const std::string embedding = "model.embed_tokens.weight";
    const auto gradient = [&](const LlamaModel& llama, StreamGradientDType dtype) {
      TrainingOptions training;
      training.layers.stream_gradient = dtype;
      Gradients got;
      got[embedding] = zeros_for(llama).at(embedding);
      run(llama, got, training);
      return plain(got.at(embedding));
    };
    const Plain exact = gradient(LlamaModel(llama_.config, llama_.operands(), DType::F32), StreamGradientDType::Stream);
    const auto error = [&](StreamGradientDType dtype) {
      return root_mean_square(testing_support::difference(gradient(model(), dtype), exact)) / root_mean_square(exact);
    };
    narrow += error(StreamGradientDType::Stream);
    wide += error(StreamGradientDType::F32);
  }
  std::cout << "mean relative errors: " << narrow / 4 << " in the stream's dtype, " << wide / 4 << " in f32\n";
  EXPECT_LE(wide, narrow);
}

TEST_F(LlamaGradients, StreamGradientChangesNothingInF32) {
  draw({}, 20);
  const LlamaModel llama = model();
  const Gradients stream = gradients(llama),
                  f32 = gradients(llama, {.layers = {.stream_gradient = StreamGradientDType::F32}});
  for (const auto& [name, gradient] : f32) EXPECT_EQ(plain(gradient).values, plain(stream.at(name)).values) << name;
}

TEST_F(LlamaGradients, FrozenTensorsChangeNothingElse) {
  draw({.tied_head = false}, 20);
  const LlamaModel llama = model();
  const Gradients all = gradients(llama);
  for (const std::vector<std::string>& wanted :
       {std::vector<std::string>{"lm_head.weight"},
        {"model.norm.weight"},
        {"model.layers.2.mlp.down_proj.weight"},
        {"model.layers.1.input_layernorm.weight", "model.layers.2.self_attn.v_proj.weight"},
        {"model.embed_tokens.weight"},
        {}}) {
    Gradients some;
    for (const std::string& name : wanted) some[name] = zeros_for(llama).at(name);
    run(llama, some);
    for (const auto& [name, gradient] : some) EXPECT_EQ(plain(gradient).values, plain(all.at(name)).values) << name;
  }
}

TEST_F(LlamaGradients, RunsRepeatWhateverTheThreads) {
  draw({.dtype = DType::BF16}, 130);
  const LlamaModel llama = model();
  const Gradients expected = gradients(llama, {}, DType::BF16);
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    const Gradients got = gradients(llama, {}, DType::BF16);
    for (const auto& [name, gradient] : got) EXPECT_EQ(plain(gradient).values, plain(expected.at(name)).values) << name;
  }
  set_num_threads(0);
}

TEST_F(LlamaGradients, Accumulate) {
  draw({}, 20);
  const LlamaModel llama = model();
  const Gradients once = gradients(llama), twice = zeros_for(llama);
  const TrainingOptions half{.head = {.factor = 0.5}};
  run(llama, twice, half);
  run(llama, twice, half);
  for (const auto& [name, gradient] : once) testing_support::expect_close(twice.at(name), plain(gradient), 1e-6);
}

// Bytes a token and layer keep at the sizes of LLaMA-3 8B in bf16, from a small layer of the same structure.
TEST(SavedBytes, AreWhatTheShapesSay) {
  constexpr std::int64_t kWidth = 64, kHead = 16, kHeads = 4, kKvHeads = 2, kMlp = 96, kTokens = 3;
  const auto zeros = [](std::int64_t rows, std::int64_t cols) { return Tensor::zeros({rows, cols}, DType::BF16); };
  const Tensor gamma = Tensor::zeros({kWidth}, DType::BF16), q = zeros(kHeads * kHead, kWidth);
  const Tensor k = zeros(kKvHeads * kHead, kWidth), v = zeros(kKvHeads * kHead, kWidth),
               o = zeros(kWidth, kHeads * kHead);
  const Tensor gate = zeros(kMlp, kWidth), up = zeros(kMlp, kWidth), down = zeros(kWidth, kMlp);
  LayerWeights weights;
  weights.input_norm = weights.post_norm = RmsNorm{gamma};
  weights.qkv.q = q;
  weights.qkv.k = k;
  weights.qkv.v = v;
  weights.o = o;
  weights.gate = gate;
  weights.up = up;
  weights.down = down;
  const Tensor positions = Tensor::zeros({kTokens}, DType::F32);
  const LayerConfig config{kHeads, kKvHeads, kHead, {.head = kHead}, "swiglu"};
  const NormedStream stream = enter_norm(zeros(kTokens, kWidth), weights.input_norm);
  const auto formula = [](std::int64_t d, std::int64_t heads, std::int64_t qkv, std::int64_t gate_up) {
    return 2 * (3 * d + qkv + gate_up) + 4 * heads + 8;  // x twice, attention's result; lse; two sums
  };
  const auto kept = [&](SavedPolicy policy) {
    SavedLayer saved;
    transformer_layer_saved(stream, weights, config, {positions.view(), {}, {}, {}}, weights.input_norm, {1, policy},
                            saved);
    return saved_bytes(saved) / kTokens;
  };
  const std::int64_t lean = formula(kWidth, kHeads, (kHeads + 2 * kKvHeads) * kHead, 2 * kMlp);
  EXPECT_EQ(kept(SavedPolicy::Lean), lean);
  EXPECT_EQ(kept(SavedPolicy::Fast), lean + 2 * kMlp);
  EXPECT_EQ(formula(4096, 32, 6144, 28672), 94344);
}

}  // namespace
}  // namespace coda
