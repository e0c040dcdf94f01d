// Each block against plain loops, in f32 at rounding level and in bf16 within twice a stock model's own error.
#include <gtest/gtest.h>

#include <cmath>

#include "blocks/arguments.h"
#include "blocks/plain_math.h"
#include "coda/blocks.h"

namespace coda {
namespace {

using testing_support::cross_entropy;
using testing_support::expect_close;
using testing_support::expect_twice_stock;
using testing_support::Plain;
using testing_support::plain;
using testing_support::PlainMath;
using testing_support::random_plain;

constexpr double kEps = 1e-5;
constexpr std::int64_t kTokens[] = {0, 1, 7, 70};

class Blocks : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override { std::cout << "seed " << seed_ << "\n"; }

  DType dtype() const { return GetParam(); }
  Plain random(std::int64_t rows, std::int64_t cols, double scale = 1, double mean = 0) {
    return random_plain(random_, rows, cols, dtype(), scale, mean);
  }
  /// Weights that keep the size of what they multiply.
  Plain weight(std::int64_t out, std::int64_t in) { return random(out, in, 1 / std::sqrt(static_cast<double>(in))); }

  void expect(const TensorView& got, const std::function<Plain(const PlainMath&)>& compute) {
    if (got.size() == 0) return;
    if (dtype() == DType::F32) return expect_close(got, compute(PlainMath{}));
    expect_twice_stock(got, compute(PlainMath{}), compute(PlainMath{dtype()}));
  }

  /// A norm whose weight lives as long as the test.
  RmsNorm norm_of(const Plain& gamma) {
    kept_.push_back(gamma.vector(dtype()));
    return {kept_.back(), kEps, epilogues::NormWeight::Gamma};
  }
  TensorView keep(const Tensor& tensor) {
    kept_.push_back(tensor);
    return tensor;
  }

  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  std::vector<Tensor> kept_;
};

TEST_P(Blocks, EnterNorm) {
  for (const std::int64_t tokens : kTokens)
    for (const std::int64_t width : {1, 48, 130, 4200}) {
      const Plain x = random(tokens, width), gamma = random(1, width, 0.2, 1);
      const NormedStream stream = enter_norm(x.tensor(dtype()), norm_of(gamma));
      EXPECT_EQ(plain(stream.x).values, x.values);
      EXPECT_LE(stream.sum_sq.view().shape(1), 64);
      expect(stream.h, [&](const PlainMath& math) {
        Plain h = x;
        for (std::int64_t r = 0; r < tokens; ++r)
          for (std::int64_t c = 0; c < width; ++c) h.at(r, c) *= gamma.at(0, c);
        return math.stored(h);
      });
      for (std::int64_t r = 0; r < tokens; ++r) {
        double sum = 0, expected = 0;
        for (std::int64_t p = 0; p < stream.sum_sq.view().shape(1); ++p) sum += stream.sum_sq.view().at(r, p);
        for (std::int64_t c = 0; c < width; ++c) expected += x.at(r, c) * x.at(r, c);
        EXPECT_NEAR(sum, expected, 1e-5 * expected);
      }
    }
}

TEST_P(Blocks, ResidualNorm) {
  for (const std::int64_t tokens : kTokens)
    for (const bool with_bias : {false, true}) {
      const Plain y = random(tokens, 40), w = weight(72, 40), x = random(tokens, 72), gamma = random(1, 72, 0.2, 1);
      const std::optional<Plain> b = with_bias ? std::optional(random(1, 72)) : std::nullopt;
      const std::optional<TensorView> bias = b ? std::optional(keep(b->vector(dtype()))) : std::nullopt;
      const NormedStream stream =
          residual_norm(y.tensor(dtype()), w.tensor(dtype()), x.tensor(dtype()), norm_of(gamma), bias);
      expect(stream.x, [&](const PlainMath& math) { return math.add(math.linear(y, w, b), x); });
      // The stream goes on into a norm: what comes out is the norm of x.
      const Plain next = weight(24, 72);
      expect(norm_linear(stream, norm_of(gamma), next.tensor(dtype())), [&](const PlainMath& math) {
        return math.linear(math.rms_norm(math.add(math.linear(y, w, b), x), gamma, kEps), next);
      });
    }
}

TEST_P(Blocks, NormLinear) {
  for (const std::int64_t tokens : kTokens)
    for (const bool with_bias : {false, true}) {
      const Plain x = random(tokens, 96), gamma = random(1, 96, 0.2, 1), w = weight(50, 96), b = random(1, 50);
      const std::optional<TensorView> bias = with_bias ? std::optional(keep(b.vector(dtype()))) : std::nullopt;
      const RmsNorm norm = norm_of(gamma);
      const NormedStream stream = enter_norm(x.tensor(dtype()), norm);
      const auto truth = [&](const PlainMath& math) {
        return math.linear(math.rms_norm(x, gamma, kEps), w, with_bias ? std::optional(b) : std::nullopt);
      };
      expect(norm_linear(stream, norm, w.tensor(dtype()), bias), truth);
      const Tensor wide = norm_linear(stream, norm, w.tensor(dtype()), bias, DType::F32);
      EXPECT_EQ(wide.view().dtype(), DType::F32);
      expect(wide, truth);
    }
}

TEST_P(Blocks, NormKinds) {
  const Plain x = random(7, 64), gamma = random(1, 64, 0.2), w = weight(20, 64);
  Plain shifted = gamma, ones = gamma;
  for (double& value : shifted.values) value += 1;
  for (double& value : ones.values) value = 1;
  for (const auto kind : {epilogues::NormWeight::OnePlusGamma, epilogues::NormWeight::None}) {
    RmsNorm norm = norm_of(gamma);
    norm.kind = kind;
    if (kind == epilogues::NormWeight::None) norm.weight = {};
    const NormedStream stream = enter_norm(x.tensor(dtype()), norm);
    const Plain& factor = kind == epilogues::NormWeight::None ? ones : shifted;
    expect(norm_linear(stream, norm, w.tensor(dtype())),
           [&](const PlainMath& math) { return math.linear(math.rms_norm(x, factor, kEps), w); });
  }
}

TEST_P(Blocks, GatedMlp) {
  for (const std::int64_t tokens : kTokens)
    for (const bool with_bias : {false, true}) {
      const Plain x = random(tokens, 64), gamma = random(1, 64, 0.2, 1), g = weight(90, 64), u = weight(90, 64);
      const Plain gb = random(1, 90), ub = random(1, 90);
      const RmsNorm norm = norm_of(gamma);
      const NormedStream stream = enter_norm(x.tensor(dtype()), norm);
      const std::optional<TensorView> gate_bias = with_bias ? std::optional(keep(gb.vector(dtype()))) : std::nullopt;
      const std::optional<TensorView> up_bias = with_bias ? std::optional(keep(ub.vector(dtype()))) : std::nullopt;
      expect(gated_mlp(stream, norm, g.tensor(dtype()), u.tensor(dtype()), "swiglu", gate_bias, up_bias),
             [&](const PlainMath& math) {
               const Plain normed = math.rms_norm(x, gamma, kEps);
               const auto bias = [&](const Plain& b) { return with_bias ? std::optional(b) : std::nullopt; };
               return math.swiglu(math.linear(normed, g, bias(gb)), math.linear(normed, u, bias(ub)));
             });
    }
}

TEST_P(Blocks, GatedMlpOtherGate) {
  const Plain x = random(7, 64), gamma = random(1, 64, 0.2, 1), g = weight(30, 64), u = weight(30, 64);
  const RmsNorm norm = norm_of(gamma);
  expect(gated_mlp(enter_norm(x.tensor(dtype()), norm), norm, g.tensor(dtype()), u.tensor(dtype()), "reglu"),
         [&](const PlainMath& math) {
           const Plain normed = math.rms_norm(x, gamma, kEps);
           Plain result = math.linear(normed, g);
           const Plain up = math.linear(normed, u);
           for (std::size_t i = 0; i < result.values.size(); ++i)
             result.values[i] = std::max(result.values[i], 0.0) * up.values[i];
           return math.stored(result);
         });
}

struct RopeCase {
  epilogues::Rope::Angles angles;
  bool bias, head_norm;
};

TEST_P(Blocks, QkvRope) {
  constexpr std::int64_t kHead = 16;
  const std::vector<float> frequencies = {1, 0.5f, 0.25f, 0.125f, 0.1f, 0.05f, 0.01f, 0.001f};
  using Angles = epilogues::Rope::Angles;
  for (const std::int64_t tokens : kTokens)
    for (const RopeCase& c : {RopeCase{Angles::Frequency, false, false}, RopeCase{Angles::Frequency, true, false},
                              RopeCase{Angles::Table, false, true}, RopeCase{Angles::Table, true, true}}) {
      const Plain x = random(tokens, 64), gamma = random(1, 64, 0.2, 1);
      const Plain wq = weight(4 * kHead, 64), wk = weight(2 * kHead, 64), wv = weight(2 * kHead, 64);
      const Plain bq = random(1, 4 * kHead), bk = random(1, 2 * kHead), bv = random(1, 2 * kHead);
      const Plain gq = random(1, kHead, 0.2, 1), gk = random(1, kHead, 0.2, 1);
      QkvWeights weights{
          keep(wq.tensor(dtype())), keep(wk.tensor(dtype())), keep(wv.tensor(dtype())), {}, {}, {}, {}, {}};
      if (c.bias) {
        weights.q_bias = keep(bq.vector(dtype()));
        weights.k_bias = keep(bk.vector(dtype()));
        weights.v_bias = keep(bv.vector(dtype()));
      }
      if (c.head_norm) {
        weights.q_norm = norm_of(gq);
        weights.k_norm = norm_of(gk);
      }
      epilogues::Rope rope;
      rope.head = kHead;
      rope.angles = c.angles;
      Plain positions(tokens, 1), cosines(tokens, kHead / 2), sines(tokens, kHead / 2), table(1, kHead / 2);
      for (std::int64_t p = 0; p < kHead / 2; ++p) {
        table.at(0, p) = static_cast<double>(frequencies[static_cast<std::size_t>(p)]);
        for (std::int64_t r = 0; r < tokens; ++r) {
          positions.at(r, 0) = static_cast<double>(r);
          const auto angle = static_cast<double>(static_cast<float>(r) * frequencies[static_cast<std::size_t>(p)]);
          cosines.at(r, p) = std::cos(angle);
          sines.at(r, p) = std::sin(angle);
        }
      }
      const RopeTensors tensors{keep(positions.vector(DType::I32)), keep(table.vector(DType::F32)),
                                keep(cosines.tensor(DType::F32)), keep(sines.tensor(DType::F32))};
      const RmsNorm norm = norm_of(gamma);
      const Qkv qkv = qkv_rope(enter_norm(x.tensor(dtype()), norm), norm, weights, rope, tensors);

      const auto part = [&](const PlainMath& math, const Plain& w, const Plain& b) {
        return math.linear(math.rms_norm(x, gamma, kEps), w, c.bias ? std::optional(b) : std::nullopt);
      };
      const auto rotated = [&](const PlainMath& math, const Plain& w, const Plain& b, const Plain& g) {
        Plain z = part(math, w, b);
        if (c.head_norm) {
          Plain heads(z.rows * z.cols / kHead, kHead);
          heads.values = z.values;
          z.values = math.rms_norm(heads, g, kEps).values;
        }
        return math.rope(z, kHead, frequencies);
      };
      expect(qkv.q, [&](const PlainMath& math) { return rotated(math, wq, bq, gq); });
      expect(qkv.k, [&](const PlainMath& math) { return rotated(math, wk, bk, gk); });
      expect(qkv.v, [&](const PlainMath& math) { return part(math, wv, bv); });
    }
}

TEST_P(Blocks, LmHeadLoss) {
  for (const std::int64_t tokens : kTokens)
    for (const std::int64_t vocabulary : {1, 100, 4500}) {
      const Plain x = random(tokens, 32), gamma = random(1, 32, 0.2, 1), w = random(vocabulary, 32, 0.5);
      Plain targets(tokens, 1);
      for (std::int64_t r = 0; r < tokens; ++r)
        targets.at(r, 0) = r % 3 == 2 ? -100 : static_cast<double>(random_() % static_cast<std::uint64_t>(vocabulary));
      const RmsNorm norm = norm_of(gamma);
      const NormedStream stream = enter_norm(x.tensor(dtype()), norm);
      const Tensor w_tensor = w.tensor(dtype());
      const auto run = [&](DType index, LossReduction reduction) {
        return lm_head_loss(stream, norm, w_tensor, targets.vector(index), reduction);
      };
      const auto truth = [&](const PlainMath& math) {
        const Plain logits = math.linear(math.rms_norm(x, gamma, kEps), w);
        Plain losses(tokens, 1);
        for (std::int64_t r = 0; r < tokens; ++r)
          if (r % 3 != 2) losses.at(r, 0) = cross_entropy(logits, r, static_cast<std::int64_t>(targets.at(r, 0)));
        return losses;
      };
      const Loss none = run(DType::I32, LossReduction::None);
      expect(none.per_token, truth);
      EXPECT_EQ(none.value, 0);
      EXPECT_EQ(none.counted, tokens - tokens / 3);
      double sum = 0;
      for (const double loss : plain(none.per_token).values) sum += loss;
      EXPECT_NEAR(run(DType::I64, LossReduction::Sum).value, sum, 1e-9 * sum);
      const double mean = run(DType::I64, LossReduction::Mean).value;
      if (tokens == 0) {
        EXPECT_TRUE(std::isnan(mean));
      } else {
        EXPECT_NEAR(mean, sum / static_cast<double>(none.counted), 1e-9 * sum);
      }
    }
}

TEST_P(Blocks, LmHeadLossAllIgnored) {
  const Plain x = random(3, 8), gamma = random(1, 8), w = random(5, 8);
  const RmsNorm norm = norm_of(gamma);
  const NormedStream stream = enter_norm(x.tensor(dtype()), norm);
  const std::int64_t targets[] = {7, 7, 7};
  const TensorView view(const_cast<std::int64_t*>(targets), DType::I64, {3});
  EXPECT_TRUE(std::isnan(lm_head_loss(stream, norm, w.tensor(dtype()), view, LossReduction::Mean, 7).value));
  const Loss sum = lm_head_loss(stream, norm, w.tensor(dtype()), view, LossReduction::Sum, 7);
  EXPECT_EQ(sum.value, 0);
  EXPECT_EQ(sum.counted, 0);
  EXPECT_EQ(plain(sum.per_token).values, (std::vector<double>{0, 0, 0}));
}

// A NaN in row 2 of the stream reaches row 2 of every result and no other.
TEST_P(Blocks, NanStaysInItsRow) {
  Plain x = random(7, 64);
  const Plain gamma = random(1, 64, 0.2, 1), w = weight(40, 64), targets(7, 1);
  x.at(2, 50) = std::nan("");
  const RmsNorm norm = norm_of(gamma);
  const NormedStream stream = enter_norm(x.tensor(dtype()), norm);
  const auto expect_row = [](const TensorView& got) {
    const Plain values = plain(got);
    for (std::int64_t r = 0; r < values.rows; ++r)
      for (std::int64_t c = 0; c < values.cols; ++c) EXPECT_EQ(std::isnan(values.at(r, c)), r == 2) << r << ", " << c;
  };
  const Tensor w_tensor = w.tensor(dtype());
  expect_row(norm_linear(stream, norm, w_tensor));
  expect_row(gated_mlp(stream, norm, w_tensor, w_tensor));
  expect_row(lm_head_loss(stream, norm, w_tensor, targets.vector(DType::I32), LossReduction::None).per_token);
}

// A NaN in row 5 of a weight reaches column 5 and no other.
TEST_P(Blocks, NanInAWeightStaysInItsColumn) {
  const Plain x = random(7, 64), gamma = random(1, 64, 0.2, 1);
  Plain w = weight(40, 64);
  w.at(5, 3) = std::nan("");
  const RmsNorm norm = norm_of(gamma);
  const Plain got = plain(norm_linear(enter_norm(x.tensor(dtype()), norm), norm, w.tensor(dtype())));
  for (std::int64_t r = 0; r < got.rows; ++r)
    for (std::int64_t c = 0; c < got.cols; ++c) EXPECT_EQ(std::isnan(got.at(r, c)), c == 5);
}

TEST(PartialWidth, LeavesAtMostSixtyFour) {
  for (const std::int64_t columns : {1, 63, 64, 576, 4096, 4097, 8192, 49152, 128256, 1000003}) {
    EXPECT_EQ(partial_width_for(columns) % 64, 0);
    EXPECT_LE(partial_count_for(columns), 64);
    EXPECT_GE(partial_count_for(columns) * partial_width_for(columns), columns);
  }
  EXPECT_EQ(partial_width_for(4096), 64);
  EXPECT_EQ(partial_width_for(4097), 192);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Blocks, ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace coda
