// What f16 has no numbers for is refused before a gradient is written, and other dtypes are not.
#include <gtest/gtest.h>

#include <cmath>

#include "blocks/plain_llama.h"
#include "coda/model.h"
#include "coda/training.h"
#include "support/error_row.h"

namespace coda {
namespace {

using testing_support::expect_errors;
using testing_support::PlainLlama;
using testing_support::random_llama;

constexpr const char* kNorm = "model.norm.weight";

/// A model whose token 7 is 40000 in channel 0: x is finite in f16, x·γ of the second layer is not.
PlainLlama large(DType dtype) {
  std::mt19937_64 random(5);
  PlainLlama llama = random_llama(random, {.tied_head = false, .dtype = dtype});
  const auto set = [&](const std::string& name, std::int64_t row, double value) {
    llama.weights.at(name).at(row, 0) = value;
    llama.update(name);
  };
  set("model.embed_tokens.weight", 7, 40000);
  for (const char* layer : {"0", "1", "2"})
    for (const char* norm : {"input", "post_attention"})
      set(std::string("model.layers.") + layer + "." + norm + "_layernorm.weight", 0, 1);
  set("model.layers.1.input_layernorm.weight", 0, 2);
  set(kNorm, 0, 1);
  return llama;
}

class F16Range : public ::testing::Test {
 protected:
  static TensorView view(std::vector<std::int64_t>& numbers) {
    return {numbers.data(), DType::I64, {static_cast<std::int64_t>(numbers.size())}};
  }
  Loss train(const LlamaModel& model, const Tensor& norm, double factor = 1) {
    TrainingOptions options;
    options.head.factor = factor;
    return model.loss_and_gradients(view(tokens_), view(targets_), {{kNorm, norm}}, options);
  }
  Loss loss(const LlamaModel& model) { return model.loss(view(tokens_), view(targets_)); }

  std::vector<std::int64_t> tokens_{1, 2, 7, 3}, targets_{2, 7, 3, 4};
};

TEST_F(F16Range, Overflow) {
  const PlainLlama llama = large(DType::F16);
  const LlamaModel model(llama.config, llama.operands());
  const Tensor norm = Tensor::zeros({32}, DType::F32);
  const std::string text =
      ": the loss of row 2 is NaN or infinite in f16, expected a number: x or x·γ has passed 65504, the largest f16, "
      "or the weights hold NaN: run the model in bf16 or f32";
  expect_errors({{typeid(ValueError), "loss" + text, [&] { loss(model); }},
                 {typeid(ValueError), "loss_and_gradients" + text, [&] { train(model, norm); }}});
  for (std::int64_t i = 0; i < 32; ++i) EXPECT_EQ(norm.data<float>()[i], 0);
  targets_ = {2, 7, -100, -100};  // a gradient would be NaN all the same
  EXPECT_TRUE(std::isfinite(loss(model).value));
  expect_errors({{typeid(ValueError), "loss_and_gradients" + text, [&] { train(model, norm); }}});
  tokens_[2] = 6;
  EXPECT_TRUE(std::isfinite(train(model, norm).value));
}

TEST_F(F16Range, OtherDTypesGoOn) {
  const PlainLlama llama = large(DType::BF16);
  const Tensor norm = Tensor::zeros({32}, DType::F32);
  EXPECT_TRUE(std::isfinite(train(LlamaModel(llama.config, llama.operands()), norm, 0x1p-20).value));
  PlainLlama broken = llama;
  broken.weights.at(kNorm).at(0, 1) = std::nan("");
  broken.update(kNorm);
  const LlamaModel model(broken.config, broken.operands());
  EXPECT_TRUE(std::isnan(loss(model).value));
  EXPECT_TRUE(std::isnan(train(model, norm).value));
}

TEST_F(F16Range, ShareOfAToken) {
  tokens_ = {1, 2, 6, 3};
  targets_ = {2, -100, 3, 4};
  const PlainLlama llama = large(DType::F16);
  const LlamaModel model(llama.config, llama.operands());
  const Tensor norm = Tensor::zeros({32}, DType::F32);
  expect_errors({{typeid(ValueError),
                  "loss_and_gradients: factor is -0.0001 over 3 tokens, 3.33333e-05 for each, expected at least 2^-14 "
                  "= 6.10352e-05, the smallest normal f16: the gradient by f16 logits loses bits below it: pass factor "
                  "-3.2768 with f32 gradients, and divide them by 32768",
                  [&] { train(model, norm, -0.0001); }}});
  for (const double factor : {0.0, 3 * 0x1p-14}) EXPECT_TRUE(std::isfinite(train(model, norm, factor).value));
}

TEST_F(F16Range, ShareOfATokenInTheHead) {
  const auto run = [](std::int64_t tokens, LossReduction reduction, double factor, DType dtype = DType::F16) {
    const Tensor x = Tensor::from({tokens, 8}, std::vector<double>(static_cast<std::size_t>(tokens * 8), 1), dtype);
    const Tensor weight = Tensor::zeros({3, 8}, dtype), gamma = Tensor::zeros({8}, dtype);
    const std::vector<double> targets(static_cast<std::size_t>(tokens), 1);
    const NormedStream stream = enter_norm(x, {gamma});
    return lm_head_loss_backward(stream, {gamma}, weight, Tensor::from({tokens}, targets, DType::I64),
                                 {.reduction = reduction, .factor = factor})
        .loss.value;
  };
  const std::string end =
      " for each, expected at least 2^-14 = 6.10352e-05, the smallest normal f16: the gradient by f16 logits loses "
      "bits below it: pass factor ";
  expect_errors({
      {typeid(ValueError),
       "lm_head_loss_backward: factor is 1 over 16385 tokens, 6.10314e-05" + end +
           "32768 with f32 gradients, and divide them by 32768",
       [&] { run(16385, LossReduction::Mean, 1); }},
      {typeid(ValueError),
       "lm_head_loss_backward: factor is 1e-05 over 3 tokens, 1e-05" + end +
           "1.31072 with f32 gradients, and divide them by 131072",
       [&] { run(3, LossReduction::Sum, 1e-5); }},
  });
  EXPECT_NEAR(run(16384, LossReduction::Mean, 1), std::log(3), 1e-5);
  EXPECT_NEAR(run(16385, LossReduction::Mean, 2), std::log(3), 1e-5);
  EXPECT_NEAR(run(16385, LossReduction::Mean, 1, DType::BF16), std::log(3), 1e-5);
}

}  // namespace
}  // namespace coda
