// The kernel of attention on the emulated GPU against the CPU's attention: every dtype, head size, grouping and layout;
// what a query does not see, and that its result depends on no other query.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "blocks/plain_math.h"
#include "coda/blocks.h"
#include "emulated/emulated_gpu.h"
#include "support/matrices.h"

namespace coda::testing_support {
namespace {

constexpr Device kGpu{DeviceKind::Cuda, 0};

struct Sizes {
  std::int64_t tokens, keys, heads, kv_heads, head;
};

TensorView on_gpu(const TensorView& view) { return {view.data(), view.dtype(), view.shape(), view.strides(), kGpu}; }

class EmulatedAttention : public EmulatedTest {
 protected:
  void SetUp() override { std::cout << "seed " << seed_ << "\n"; }

  struct Inputs {
    Tensor q, k, v;
  };
  Inputs inputs(const Sizes& s, DType dtype) {
    const auto draw = [&](std::int64_t rows, std::int64_t heads) {
      return random_plain(random_, rows, heads * s.head, dtype).tensor(dtype);
    };
    return {draw(s.tokens, s.heads), draw(s.keys, s.kv_heads), draw(s.keys, s.kv_heads)};
  }
  static Plain attend(const TensorView& q, const TensorView& k, const TensorView& v, const Sizes& s, double scale = 0) {
    const Tensor out = causal_attention(q, k, v, s.heads, s.kv_heads, scale);
    return plain(q.device() == kGpu ? Tensor::copy_to(out, {}) : out);
  }
  static Plain attend_on_gpu(const Inputs& in, const Sizes& s, double scale = 0) {
    return attend(on_gpu(in.q), on_gpu(in.k), on_gpu(in.v), s, scale);
  }
  // The CPU's, in fp32 throughout.
  static Plain expected(const Inputs& in, const Sizes& s, double scale = 0) {
    const auto wide = [](const Tensor& tensor) { return Tensor::copy(tensor, DType::F32); };
    return attend(wide(in.q), wide(in.k), wide(in.v), s, scale);
  }
  static void expect_equal(const Plain& got, const Plain& expected, DType dtype) {
    const double rounding = dtype == DType::F32 ? 0 : dtype == DType::F16 ? 0x1.01p-11 : 0x1.01p-8;
    double worst = 0;
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      const double x = got.values[i], y = expected.values[i];
      if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
      worst = std::max(worst, std::isnan(x - y) ? INFINITY : std::abs(x - y) / (rounding * std::abs(y) + 3e-6));
    }
    EXPECT_LE(worst, 1) << "of what is allowed";
  }

  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

TEST_F(EmulatedAttention, EqualsTheCpus) {
  for (const Sizes& s : {Sizes{0, 9, 2, 1, 8},
                         {1, 1, 2, 1, 8},
                         {1, 300, 6, 2, 64},
                         {9, 9, 2, 2, 8},
                         {7, 200, 4, 1, 24},
                         {70, 70, 2, 1, 64},
                         {65, 161, 3, 3, 128},
                         {33, 40, 2, 1, 256},
                         {1, 140, 2, 1, 136}}) {
    for (const DType dtype : {DType::BF16, DType::F32, DType::F16}) {
      if (dtype == DType::F16 && s.head != 64) continue;  // it differs from bf16 in how an element is widened alone
      SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << s.tokens << " of " << s.keys << ", heads " << s.heads
                                      << "/" << s.kv_heads << " of " << s.head);
      const Inputs in = inputs(s, dtype);
      expect_equal(attend_on_gpu(in, s), expected(in, s), dtype);
    }
  }
}

// Scores of some dozens have errors of fp32 that the exponential shows.
TEST_F(EmulatedAttention, TakesAnyScale) {
  const Sizes s{40, 70, 2, 1, 16};
  const Inputs in = inputs(s, DType::F32);
  for (const double scale : {0.02, 1e-30, 3.0}) {
    const Plain truth = PlainMath{}.attention(plain(in.q), plain(in.k), plain(in.v), 2, 1, scale);
    const Plain got = attend_on_gpu(in, s, scale);
    for (std::size_t i = 0; i < truth.values.size(); ++i) EXPECT_NEAR(got.values[i], truth.values[i], 1e-5) << scale;
  }
}

TEST_F(EmulatedAttention, TakesAnyStrides) {
  const Sizes s{9, 70, 4, 2, 8};
  for (const DType dtype : {DType::F32, DType::BF16}) {
    for (const Layout layout : kLayouts) {
      const auto q = random_normal(random_, s.tokens, 32, dtype, layout),
                 k = random_normal(random_, s.keys, 16, dtype, layout),
                 v = random_normal(random_, s.keys, 16, dtype, layout);
      const Inputs wide{Tensor::copy(q.view, DType::F32), Tensor::copy(k.view, DType::F32),
                        Tensor::copy(v.view, DType::F32)};
      expect_equal(attend(on_gpu(q.view), on_gpu(k.view), on_gpu(v.view), s), expected(wide, s), dtype);
    }
  }
}

// The last queries alone, and one alone, give the same bits as all together.
TEST_F(EmulatedAttention, RowsAreIndependent) {
  const Sizes s{100, 130, 4, 2, 24};
  const Inputs in = inputs(s, DType::BF16);
  const Plain whole = attend_on_gpu(in, s);
  for (const std::int64_t last : {1, 2, 37, 99}) {
    const TensorView some = on_gpu(in.q).slice(0, 100 - last, 100);
    const Plain part = attend(some, on_gpu(in.k), on_gpu(in.v), s);
    EXPECT_EQ(part.values, std::vector<double>(whole.values.end() - last * 96, whole.values.end())) << last;
  }
}

TEST_F(EmulatedAttention, NanAndInfinityStayWithTheQueriesThatSeeThem) {
  const Sizes s{70, 70, 2, 1, 16};
  const Inputs clean = inputs(s, DType::F32);
  const Plain before = attend_on_gpu(clean, s);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const bool in_values : {false, true}) {
      Inputs in{clean.q, Tensor::copy(clean.k, DType::F32), Tensor::copy(clean.v, DType::F32)};
      (in_values ? in.v : in.k).data<float>()[41 * 16 + 3] = bad;
      const Plain got = attend_on_gpu(in, s);
      for (std::int64_t row = 0; row < 41; ++row)
        for (std::int64_t col = 0; col < 32; ++col) EXPECT_EQ(got.at(row, col), before.at(row, col)) << row;
      for (std::int64_t row = 41; row < 70; ++row)
        EXPECT_FALSE(std::isfinite(got.at(row, 3)) && std::isnan(bad)) << row;
    }
  }
}

}  // namespace
}  // namespace coda::testing_support
