// Causal attention against plain loops: every dtype, grouping, ragged size and instruction set; caches, NaN,
// infinities.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "blocks/attention/kernels.h"
#include "blocks/plain_math.h"
#include "coda/blocks.h"
#include "coda/gemm.h"
#include "support/matrices.h"

namespace coda {
namespace {

using testing_support::difference;
using testing_support::expect_close;
using testing_support::expect_twice_stock;
using testing_support::Plain;
using testing_support::plain;
using testing_support::PlainMath;
using testing_support::random_plain;

struct Sizes {
  std::int64_t tokens, keys, heads, kv_heads, head;
};

class Attention : public ::testing::Test {
 protected:
  void SetUp() override { std::cout << "seed " << seed_ << "\n"; }

  struct Inputs {
    Plain q, k, v;
  };
  Inputs inputs(const Sizes& s, DType dtype) {
    return {random_plain(random_, s.tokens, s.heads * s.head, dtype),
            random_plain(random_, s.keys, s.kv_heads * s.head, dtype),
            random_plain(random_, s.keys, s.kv_heads * s.head, dtype)};
  }
  static Tensor run(const Inputs& in, const Sizes& s, DType dtype, double scale = 0) {
    return causal_attention(in.q.tensor(dtype), in.k.tensor(dtype), in.v.tensor(dtype), s.heads, s.kv_heads, scale);
  }

  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

const Sizes kSizes[] = {{0, 0, 2, 1, 8},      {0, 9, 2, 1, 8},    {1, 1, 1, 1, 1},     {1, 300, 6, 2, 64},
                        {1, 7, 4, 4, 20},     {1, 513, 3, 1, 80}, {2, 2, 2, 2, 3},     {7, 7, 4, 2, 16},
                        {7, 200, 2, 1, 8},    {64, 64, 3, 3, 64}, {65, 129, 4, 1, 40}, {130, 130, 9, 3, 64},
                        {200, 333, 2, 2, 128}};

TEST_F(Attention, EqualsPlainLoops) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(::testing::Message() << s.tokens << " of " << s.keys << ", heads " << s.heads << "/" << s.kv_heads
                                      << " of " << s.head);
    const Inputs f32 = inputs(s, DType::F32);
    expect_close(run(f32, s, DType::F32), PlainMath{}.attention(f32.q, f32.k, f32.v, s.heads, s.kv_heads), 2e-6);
    for (const DType dtype : {DType::BF16, DType::F16}) {
      const Inputs in = inputs(s, dtype);
      const Plain truth = PlainMath{}.attention(in.q, in.k, in.v, s.heads, s.kv_heads);
      expect_twice_stock(run(in, s, dtype), truth, PlainMath{dtype}.attention(in.q, in.k, in.v, s.heads, s.kv_heads));
    }
  }
}

TEST_F(Attention, TakesAnyScale) {
  for (const double scale : {0.02, 1e-30, 3.0}) {
    for (const std::int64_t tokens : {1, 40}) {
      const Sizes s{tokens, 70, 2, 1, 16};
      const Inputs in = inputs(s, DType::F32);
      expect_close(run(in, s, DType::F32, scale), PlainMath{}.attention(in.q, in.k, in.v, 2, 1, scale), 1e-5);
    }
  }
}

// A row's result depends on no other row: the last queries alone give the same bits as all together.
TEST_F(Attention, RowsAreIndependent) {
  const Sizes all{150, 150, 4, 2, 24};
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const Inputs in = inputs(all, dtype);
    const Tensor whole = run(in, all, dtype);
    const Tensor q = in.q.tensor(dtype), k = in.k.tensor(dtype), v = in.v.tensor(dtype);
    for (const std::int64_t last : {2, 37, 149}) {
      const Tensor part = causal_attention(q.view().slice(0, 150 - last, 150), k, v, 4, 2);
      const Plain expected = plain(whole.view().slice(0, 150 - last, 150));
      EXPECT_EQ(plain(part).values, expected.values) << last;
    }
    const Tensor first =
        causal_attention(q.view().slice(0, 0, 90), k.view().slice(0, 0, 90), v.view().slice(0, 0, 90), 4, 2);
    EXPECT_EQ(plain(first).values, plain(whole.view().slice(0, 0, 90)).values);
    const Tensor one = causal_attention(q.view().slice(0, 149, 150), k, v, 4, 2);
    expect_close(one, plain(whole.view().slice(0, 149, 150)), dtype == DType::F32 ? 1e-6 : 0x1p-7);
  }
}

TEST_F(Attention, TakesAnyStrides) {
  using testing_support::Layout;
  const Sizes s{9, 21, 4, 2, 8};
  for (const Layout layout : {Layout::Padded, Layout::Stepped, Layout::Transposed, Layout::ColsReversed,
                              Layout::RowsReversed, Layout::RowsBroadcast, Layout::ColsBroadcast}) {
    // Products of equal columns add up to √8 times the usual score, and so does their rounding: not with this scale.
    const double scale = layout == Layout::ColsBroadcast ? 1.0 / 8 : 0;
    for (const std::int64_t tokens : {1, 9}) {
      const auto q = testing_support::random_normal(random_, tokens, 32, DType::F32, layout);
      const auto k = testing_support::random_normal(random_, s.keys, 16, DType::F32, layout);
      // Above 0: where all columns are one, so is the result, and a sum that cancels would be as small as its rounding.
      const auto v = testing_support::random_integers(random_, s.keys, 16, DType::F32, layout, 1, 9);
      expect_close(causal_attention(q.view, k.view, v.view, 4, 2, scale),
                   PlainMath{}.attention(plain(q.view), plain(k.view), plain(v.view), 4, 2, scale), 2e-6);
    }
  }
}

TEST_F(Attention, IsTheSameForAnyNumberOfThreads) {
  const Sizes s{140, 300, 6, 3, 32};
  const Inputs in = inputs(s, DType::BF16);
  const Plain expected = plain(run(in, s, DType::BF16));
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    EXPECT_EQ(plain(run(in, s, DType::BF16)).values, expected.values) << threads;
  }
  set_num_threads(0);
}

// NaN or infinity in a key or value reaches the queries that see it and no others.
TEST_F(Attention, BadKeysReachOnlyThoseWhoSeeThem) {
  for (const DType dtype : {DType::F32, DType::BF16})
    for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
      for (const std::int64_t at : {3, 70, 199}) {
        const Sizes s{200, 200, 4, 2, 16};
        Inputs in = inputs(s, dtype);
        const Plain clean = plain(run(in, s, dtype));
        in.v.at(at, 5) = bad;                // key head 0, column 5: query heads 0 and 1
        in.k.at(at, 16 + 2) = std::nan("");  // key head 1: query heads 2 and 3
        const Plain got = plain(run(in, s, dtype));
        for (std::int64_t t = 0; t < s.tokens; ++t)
          for (std::int64_t c = 0; c < 64; ++c) {
            const bool reached = t >= at && (c >= 32 || c % 16 == 5);
            // The scalar path beside a bad value sums in another order.
            if (reached) {
              ASSERT_FALSE(std::isfinite(got.at(t, c))) << at << ": " << t << ", " << c;
            } else {
              ASSERT_NEAR(got.at(t, c), clean.at(t, c), dtype == DType::F32 ? 1e-5 : 0.03) << t << ", " << c;
            }
          }
      }
}

TEST_F(Attention, SpecialScores) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t tokens : {1, 2}) {
    // Key 0 has score −inf for every query, key 1 a finite one: key 1 alone counts, where it is seen.
    Plain q(tokens, 1), k(2, 1), v(2, 1);
    for (double& value : q.values) value = 1;
    k.values = {-infinity, 0.5};
    v.values = {3, 4};
    const Plain got = plain(causal_attention(q.tensor(DType::F32), k.tensor(DType::F32), v.tensor(DType::F32), 1, 1));
    EXPECT_EQ(got.values.back(), 4);
    if (tokens == 2) {
      EXPECT_TRUE(std::isnan(got.values.front())) << "softmax of −inf alone";
    }
  }
}

// The same loops compiled for each instruction set agree closely on one block.
TEST_F(Attention, EveryInstructionSet) {
  constexpr std::int64_t kRows = 5, kCols = 27, kPitch = 32, kWidth = 21;
  const Plain scores = random_plain(random_, kRows, kPitch, DType::F32, 4);
  const Plain queries = random_plain(random_, kRows, kWidth, DType::F32),
              keys = random_plain(random_, kCols, kWidth, DType::F16);
  for (const attention::Kernels* set :
       {attention::portable_kernels(), attention::avx2_kernels(), attention::avx512_kernels()}) {
    if (set == nullptr) continue;
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      const Tensor block = scores.tensor(DType::F32), probabilities = Tensor::zeros({kRows, kPitch}, dtype);
      std::vector<float> maximum(kRows, -INFINITY), sum(kRows, 0), rescale(kRows);
      attention::SoftmaxBlock softmax;
      softmax.scores = block.data<float>();
      softmax.pitch = kPitch;
      softmax.rows = kRows;
      softmax.cols = kCols;
      softmax.visible = 3;
      softmax.visible_step = 10;
      softmax.maximum = maximum.data();
      softmax.sum = sum.data();
      softmax.rescale = rescale.data();
      softmax.dtype = dtype;
      softmax.probabilities = probabilities.view().data();
      set->softmax(softmax);
      for (std::int64_t r = 0; r < kRows; ++r) {
        const std::int64_t seen = std::min(3 + 10 * r, kCols);
        double largest = -INFINITY, total = 0;
        for (std::int64_t j = 0; j < seen; ++j) largest = std::max(largest, scores.at(r, j));
        for (std::int64_t j = 0; j < kPitch; ++j) {
          const double p = j < seen ? std::exp2(scores.at(r, j) - largest) : 0;
          total += p;
          EXPECT_NEAR(probabilities.view().at(r, j), p, dtype == DType::F32 ? 1e-6 : 4e-3);
        }
        EXPECT_NEAR(sum[static_cast<std::size_t>(r)], total, 1e-5);
        EXPECT_EQ(rescale[static_cast<std::size_t>(r)], 0);
      }

      const Tensor key_tensor = keys.tensor(dtype);
      const Tensor dots = Tensor::zeros({kRows, kPitch}, DType::F32);
      set->dot(queries.tensor(DType::F32).data<float>(), kRows, dtype, key_tensor.view().data(), kWidth, kCols, kWidth,
               dots.data<float>(), kPitch);
      expect_close(dots.view().slice(1, 0, kCols), PlainMath{}.linear(queries, plain(key_tensor)), 1e-6);

      const Tensor combined = Tensor::empty({kRows, kWidth}, DType::F32);
      set->combine(dots.data<float>(), kPitch, kRows, dtype, key_tensor.view().data(), kWidth, kCols, kWidth,
                   combined.data<float>());
      Plain values = plain(key_tensor.view().transposed());
      expect_close(combined, PlainMath{}.linear(plain(dots.view().slice(1, 0, kCols)), values), 1e-6);
    }
  }
}

}  // namespace
}  // namespace coda
