// Whole models on the emulated GPU against the same model on the CPU: LLaMA, Qwen2 and Qwen3 in kind, in bf16; logits,
// layers, loss, and decoding over a cache.
#include <gtest/gtest.h>

#include <random>

#include "emulated/emulated_gpu.h"
#include "emulated/model_kinds.h"

namespace coda::testing_support {
namespace {

constexpr Device kGpu{DeviceKind::Cuda, 0};
constexpr std::int64_t kTokens = 21;

class EmulatedModel : public EmulatedTest, public testing::WithParamInterface<PlainLlamaOptions> {
 protected:
  void SetUp() override {
    std::cout << "seed " << seed_ << "\n";
    plain_ = random_llama(random_, GetParam());
    for (std::int64_t i = 0; i < kTokens; ++i) {
      tokens_.push_back(static_cast<std::int64_t>(random_() % 53));
      targets_.push_back(static_cast<std::int64_t>(random_() % 53));
    }
    targets_[4] = -100;
  }

  static Tensor on_host(const TensorView& view) { return Tensor::copy_to(view, {}); }
  TensorView view_of(std::vector<std::int64_t>& numbers) const {
    return {numbers.data(), DType::I64, {static_cast<std::int64_t>(numbers.size())}};
  }
  LlamaModel on(Device device, bool share = false) const {
    return LlamaModel(plain_.config, plain_.operands(), {}, share, device);
  }
  // Twice the error of plain loops with the stock order of roundings.
  void expect_close(const TensorView& got, const Plain& exact, const Plain& stock) const {
    expect_twice_stock(on_host(got), exact, stock);
  }

  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  PlainLlama plain_;
  std::vector<std::int64_t> tokens_, targets_;
};

TEST_P(EmulatedModel, LogitsAndLayersAreNoWorseThanStock) {
  const LlamaModel model = on(kGpu);
  EXPECT_EQ(model.device(), kGpu);
  const PlainMath exact, stock{DType::BF16};
  const auto truth = plain_.hidden(tokens_, exact), stocks = plain_.hidden(tokens_, stock);
  std::size_t seen = 0;
  model.observe_layers(view_of(tokens_), [&](std::int64_t index, const TensorView& hidden) {
    EXPECT_EQ(hidden.device(), kGpu);
    expect_close(hidden, truth.at(static_cast<std::size_t>(index)), stocks.at(static_cast<std::size_t>(index)));
    ++seen;
  });
  EXPECT_EQ(seen, truth.size());
  const Tensor logits = model.logits(view_of(tokens_));
  EXPECT_EQ(logits.view().device(), kGpu);
  expect_close(logits, plain_.logits(tokens_, exact), plain_.logits(tokens_, stock));
}

TEST_P(EmulatedModel, LossIsTheCpus) {
  const LlamaModel model = on(kGpu), cpu = on({});
  const Loss expected = cpu.loss(view_of(tokens_), view_of(targets_));
  const Loss got = model.loss(view_of(tokens_), view_of(targets_));
  EXPECT_NEAR(got.value, expected.value, 0.02 * expected.value);
  EXPECT_EQ(got.counted, kTokens - 1);
  EXPECT_EQ(got.per_token.view().device(), Device{});
  EXPECT_EQ(got.per_token.data<float>()[4], 0);
  const Tensor there = Tensor::copy_to(view_of(tokens_), kGpu), wanted = Tensor::copy_to(view_of(targets_), kGpu);
  EXPECT_EQ(model.loss(there, wanted).value, got.value) << "tokens on the GPU";
}

// Each token generated is the likeliest of the logits of all tokens before it, but for a tie within rounding.
TEST_P(EmulatedModel, GeneratesOverItsCache) {
  const LlamaModel model = on(kGpu);
  std::vector<std::int64_t> all(tokens_.begin(), tokens_.begin() + 5);
  const auto prompt = all;
  model.generate(view_of(all), 6,
                 [&](std::int64_t token) {
                   auto before = all;
                   const Tensor logits = on_host(model.logits(view_of(before)));
                   double largest = -1e30;
                   const std::int64_t last = static_cast<std::int64_t>(before.size()) - 1;
                   for (std::int64_t v = 0; v < 53; ++v) largest = std::max(largest, logits.view().at(last, v));
                   EXPECT_GE(logits.view().at(last, token), largest - 0.05);
                   all.push_back(token);
                   return true;
                 },
                 {});
  EXPECT_EQ(all.size(), prompt.size() + 6);
}

TEST_P(EmulatedModel, WeightsOnTheGpuAreShared) {
  PlainLlama there = plain_;
  for (auto& [name, tensor] : there.tensors) tensor = Tensor::copy_to(tensor, kGpu);
  const LlamaModel shared(there.config, there.operands(), {}, true, kGpu), copied = on(kGpu);
  const Plain first = plain(on_host(shared.logits(view_of(tokens_)))),
              second = plain(on_host(copied.logits(view_of(tokens_))));
  EXPECT_EQ(first.values, second.values);
}

// More partials of the vocabulary than a load finishes.
TEST_F(EmulatedTest, LossOfALargeVocabulary) {
  std::mt19937_64 random(std::random_device{}());
  constexpr std::int64_t kRows = 3, kWidth = 16, kVocabulary = 8300;
  const Tensor x = random_plain(random, kRows, kWidth, DType::BF16).tensor(DType::BF16);
  const Tensor weight = random_plain(random, kVocabulary, kWidth, DType::BF16).tensor(DType::BF16);
  std::int64_t numbers[kRows] = {8299, -100, 17};
  const TensorView targets(numbers, DType::I64, {kRows});
  const RmsNorm none{.weight = {}, .kind = epilogues::NormWeight::None};
  const Loss expected = lm_head_loss(enter_norm(x, none), none, weight, targets);
  const Tensor there = Tensor::copy_to(x, kGpu), weight_there = Tensor::copy_to(weight, kGpu);
  const Loss got = lm_head_loss(enter_norm(there, none), none, weight_there, targets);
  EXPECT_NEAR(got.value, expected.value, 1e-4);
  EXPECT_EQ(got.counted, 2);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EmulatedModel, model_kinds(), kind_name);

}  // namespace
}  // namespace coda::testing_support
