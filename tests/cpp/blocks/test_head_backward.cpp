// The head's loss and its backward, against differences of plain loops; chunks of tokens change nothing but roundings.
#include <gtest/gtest.h>

#include <cstring>

#include "blocks/plain_gradients.h"
#include "coda/training.h"

namespace coda {
namespace {

using testing_support::cross_entropy;
using testing_support::difference;
using testing_support::expect_gradient;
using testing_support::Plain;
using testing_support::plain;
using testing_support::PlainMath;
using testing_support::Plains;
using testing_support::random_plain;
using testing_support::root_mean_square;

constexpr double kEps = 1e-5;
constexpr std::int64_t kWidth = 20;

class HeadChain : public ::testing::Test {
 protected:
  void SetUp() override { std::cout << "seed " << seed_ << "\n"; }

  void draw(std::int64_t tokens, std::int64_t vocabulary, DType dtype = DType::F32) {
    dtype_ = dtype;
    plains_ = {{"x", random_plain(random_, tokens, kWidth, dtype)},
               {"gamma", random_plain(random_, 1, kWidth, dtype, 0.2, 1)},
               {"weight", random_plain(random_, vocabulary, kWidth, dtype, 0.5)}};
    targets_ = Plain(tokens, 1);
    for (std::int64_t t = 0; t < tokens; ++t)
      targets_.at(t, 0) = t % 3 == 2 ? -100 : static_cast<double>(random_() % static_cast<std::uint64_t>(vocabulary));
  }

  struct Result {
    Loss loss;
    Tensor x, gamma, weight;
  };
  Result run(const HeadOptions& options, DType main = DType::F32,
             MainGradient::Content content = MainGradient::Content::Kept) {
    const Tensor x = plains_["x"].tensor(dtype_), weight = plains_["weight"].tensor(dtype_);
    const Tensor gamma = plains_["gamma"].vector(dtype_);
    const RmsNorm norm{gamma, kEps};
    const NormedStream stream = enter_norm(x, norm);
    Result result{{}, {}, Tensor::zeros({kWidth}, main), Tensor::zeros({plains_["weight"].rows, kWidth}, main)};
    const bool is_fresh = content == MainGradient::Content::Fresh;
    if (is_fresh) std::memset(result.weight.view().data(), 0xff, size_of(main) * result.weight.view().size());  // NaN
    const HeadBackward back = lm_head_loss_backward(stream, norm, weight, targets_.vector(DType::I64), options,
                                                    {result.weight.view(), content});
    result.loss = back.loss;
    result.x = stream_backward(back.stream, saved_stream(stream), norm, {result.gamma.view(), {}}).d_x;
    return result;
  }

  double loss(const Plains& p, const HeadOptions& options) const {
    const PlainMath math;
    const Plain logits = math.linear(math.rms_norm(p.at("x"), p.at("gamma"), kEps), p.at("weight"));
    double sum = 0, counted = 0;
    for (std::int64_t t = 0; t < targets_.rows; ++t) {
      if (targets_.at(t, 0) < 0) continue;
      sum += cross_entropy(logits, t, static_cast<std::int64_t>(targets_.at(t, 0)));
      ++counted;
    }
    return options.reduction == LossReduction::Mean ? sum / counted : sum;
  }

  DType dtype_ = DType::F32;
  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  Plains plains_;
  Plain targets_;
};

TEST_F(HeadChain, FreshGradientsTakeThePlaceOfWhatWasThere) {
  for (const std::int64_t tokens : {0, 40, 150})
    for (const DType main : {DType::F32, DType::BF16}) {
      draw(tokens, 70, DType::BF16);
      const HeadOptions options{.chunk_tokens = 64};
      const Tensor added = run(options, main).weight, fresh = run(options, main, MainGradient::Content::Fresh).weight;
      EXPECT_EQ(plain(fresh).values, plain(added).values) << tokens << " tokens into " << name_of(main);
    }
}

TEST_F(HeadChain, IsTheDerivative) {
  for (const std::int64_t vocabulary : {5, 70, 4200})
    for (const HeadOptions& options :
         {HeadOptions{}, HeadOptions{.reduction = LossReduction::Sum, .chunk_tokens = 64}}) {
      draw(vocabulary > 100 ? 5 : 150, vocabulary);
      const Result got = run(options);
      const auto truth = [&](const Plains& p) { return loss(p, options); };
      EXPECT_NEAR(got.loss.value, truth(plains_), 1e-5 * truth(plains_));
      expect_gradient(got.x, "x", plains_, truth, random_, 15);
      expect_gradient(got.gamma, "gamma", plains_, truth, random_, 15);
      expect_gradient(got.weight, "weight", plains_, truth, random_, 15);
    }
}

TEST_F(HeadChain, FactorAndRunsRepeat) {
  draw(150, 70);
  const Result once = run({}), again = run({}), halved = run({.factor = 0.5});
  EXPECT_EQ(plain(once.x).values, plain(again.x).values);
  EXPECT_EQ(plain(once.weight).values, plain(again.weight).values);
  EXPECT_EQ(once.loss.value, halved.loss.value);
  Plain twice = plain(halved.weight);
  for (double& value : twice.values) value *= 2;
  EXPECT_EQ(plain(once.weight).values, twice.values);
}

// In bf16 the chunks' gradients are summed in fp32 and rounded once.
TEST_F(HeadChain, ChunksDoNotRound) {
  draw(640, 70, DType::BF16);
  const Plain wide = plain(run({}, DType::F32).weight);
  for (const std::int64_t chunk : {0, 64, 128}) {
    const Plain got = plain(run({.chunk_tokens = chunk}, DType::BF16).weight);
    EXPECT_LE(root_mean_square(difference(got, wide)), root_mean_square(wide) * 0x1p-9) << chunk;
  }
}

TEST_F(HeadChain, NothingCounts) {
  draw(3, 5);
  for (double& target : targets_.values) target = -100;
  const Result got = run({});
  EXPECT_TRUE(std::isnan(got.loss.value));
  EXPECT_EQ(root_mean_square(plain(got.x)), 0);
  EXPECT_EQ(root_mean_square(plain(got.weight)), 0);
  draw(0, 5);
  EXPECT_EQ(run({.reduction = LossReduction::Sum}).loss.value, 0);
}

}  // namespace
}  // namespace coda
