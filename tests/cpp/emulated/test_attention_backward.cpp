// Attention for training on the emulated GPU against the CPU's in fp32: its log-sum-exp, and the gradients by q, k and
// v from what the forward left; every dtype, head size, grouping, number of sequences and layout.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "blocks/plain_math.h"
#include "coda/training.h"
#include "emulated/emulated_gpu.h"
#include "support/matrices.h"

namespace coda::testing_support {
namespace {

constexpr Device kGpu{DeviceKind::Cuda, 0};

struct Sizes {
  std::int64_t tokens, head;  ///< of a sequence
  AttentionShape shape;

  std::int64_t rows() const { return tokens * shape.sequences; }
};

TensorView on_gpu(const TensorView& view) { return {view.data(), view.dtype(), view.shape(), view.strides(), kGpu}; }
Tensor wide(const TensorView& view) { return Tensor::copy(view, DType::F32); }
Tensor on_host(const TensorView& view) { return Tensor::copy_to(view, {}); }

struct Inputs {
  TensorView q, k, v, d_out;
};

struct Results {
  Tensor out, lse;
  Tensor q, k, v;  ///< gradients
};

class EmulatedAttentionBackward : public EmulatedTest {
 protected:
  void SetUp() override { std::cout << "seed " << seed_ << "\n"; }

  Inputs inputs(const Sizes& s, DType dtype, Layout layout = Layout::Plain) {
    const auto draw = [&](std::int64_t heads) {
      matrices_.push_back(random_normal(random_, s.rows(), heads * s.head, dtype, layout));
      return matrices_.back().view;
    };
    return {draw(s.shape.heads), draw(s.shape.kv_heads), draw(s.shape.kv_heads), draw(s.shape.heads)};
  }

  static Results run_on_gpu(const Inputs& in, const AttentionShape& shape) {
    const TensorView q = on_gpu(in.q), k = on_gpu(in.k), v = on_gpu(in.v);
    const SavedAttention saved = causal_attention_saved(q, k, v, shape);
    const Qkv d = causal_attention_backward(on_gpu(in.d_out), q, k, v, saved, shape);
    return {on_host(saved.out), on_host(saved.lse), on_host(d.q), on_host(d.k), on_host(d.v)};
  }

  static void expect_close(const Tensor& got, const Tensor& expected, const std::string& of, double allowed) {
    const Plain x = plain(got), y = plain(expected);
    const double rounding = got.view().dtype() == DType::F32   ? 0
                            : got.view().dtype() == DType::F16 ? 0x1.01p-11
                                                               : 0x1.01p-8;
    double worst = 0;
    for (std::size_t i = 0; i < y.values.size(); ++i)
      worst = std::max(worst, std::abs(x.values[i] - y.values[i]) / (rounding * std::abs(y.values[i]) + allowed));
    EXPECT_LE(worst, 1) << of << ", of what is allowed";
  }

  // The CPU's gradients in fp32, from the out and lse the GPU's forward left.
  static void expect_the_cpus(const Inputs& in, const AttentionShape& shape) {
    const Results got = run_on_gpu(in, shape);
    const Tensor q = wide(in.q), k = wide(in.k), v = wide(in.v);
    const SavedAttention saved = causal_attention_saved(q, k, v, shape);
    expect_close(got.out, saved.out, "out", 5e-6);
    expect_close(got.lse, saved.lse, "lse", 1e-5);
    const Qkv d = causal_attention_backward(wide(in.d_out), q, k, v, {wide(got.out), got.lse}, shape);
    // A gradient by a key is a sum over all queries of its group.
    const double terms = std::sqrt(static_cast<double>(in.q.shape(0) * (shape.heads / shape.kv_heads)));
    expect_close(got.q, d.q, "q", 2e-5);
    expect_close(got.k, d.k, "k", 5e-6 * terms);
    expect_close(got.v, d.v, "v", 5e-6 * terms);
  }

  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  std::vector<Matrix> matrices_;
};

TEST_F(EmulatedAttentionBackward, EqualsTheCpus) {
  for (const Sizes& s : {Sizes{1, 8, {2, 1}},
                         {2, 8, {2, 1, 3}},
                         {9, 24, {4, 2, 2}},
                         {40, 64, {6, 2}},
                         {70, 16, {2, 2, 2, 0.7}},
                         {33, 128, {3, 1}},
                         {65, 136, {2, 2}},
                         {33, 256, {2, 1}}}) {
    for (const DType dtype : {DType::BF16, DType::F32, DType::F16}) {
      if (dtype == DType::F16 && s.head != 64) continue;  // it differs from bf16 in how an element is widened alone
      SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << s.shape.sequences << " of " << s.tokens << ", heads "
                                      << s.shape.heads << "/" << s.shape.kv_heads << " of " << s.head);
      expect_the_cpus(inputs(s, dtype), s.shape);
    }
  }
}

TEST_F(EmulatedAttentionBackward, TakesAnyStrides) {
  const Sizes s{37, 8, {4, 2}};
  for (const DType dtype : {DType::F32, DType::BF16}) {
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(static_cast<int>(layout));
      expect_the_cpus(inputs(s, dtype, layout), s.shape);
    }
  }
}

TEST_F(EmulatedAttentionBackward, SequencesDoNotSeeEachOther) {
  const Sizes s{35, 16, {2, 1, 2}};
  const Inputs both = inputs(s, DType::BF16);
  const auto second = [](const TensorView& view) { return view.slice(0, 35, 70); };
  const Results all = run_on_gpu(both, s.shape);
  const Results one =
      run_on_gpu({second(both.q), second(both.k), second(both.v), second(both.d_out)}, AttentionShape{2, 1});
  for (Tensor Results::* of : {&Results::out, &Results::lse, &Results::q, &Results::k, &Results::v})
    EXPECT_EQ(plain(second(all.*of)).values, plain(one.*of).values);
}

TEST_F(EmulatedAttentionBackward, NanStaysWithTheQueriesThatSeeIt) {
  const Sizes s{50, 16, {2, 1}};
  Inputs in = inputs(s, DType::F32);
  const Results before = run_on_gpu(in, s.shape);
  for (TensorView Inputs::* where : {&Inputs::k, &Inputs::v}) {
    const Tensor spoilt = wide(in.*where);
    spoilt.data<float>()[41 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
    Inputs changed = in;
    changed.*where = spoilt;
    const Results got = run_on_gpu(changed, s.shape);
    const auto seeing_none = [](const Tensor& gradient) { return plain(gradient.view().slice(0, 0, 41)).values; };
    EXPECT_EQ(seeing_none(got.q), seeing_none(before.q));
    EXPECT_TRUE(std::isnan(got.q.view().at(41, 3)));
  }
  const Tensor spoilt = wide(in.d_out);
  spoilt.data<float>()[20 * 32 + 3] = std::numeric_limits<float>::quiet_NaN();
  in.d_out = spoilt;
  const Results got = run_on_gpu(in, s.shape);
  const auto unseen = [](const Tensor& gradient) { return plain(gradient.view().slice(0, 21, 50)).values; };
  for (Tensor Results::* of : {&Results::q, &Results::k, &Results::v})
    EXPECT_EQ(unseen(got.*of), unseen(before.*of)) << "keys behind the query";
  EXPECT_TRUE(std::isnan(got.v.view().at(20, 3)));
}

TEST_F(EmulatedAttentionBackward, OfNoTokens) {
  const Sizes s{0, 8, {2, 1}};
  EXPECT_EQ(run_on_gpu(inputs(s, DType::BF16), s.shape).q.view().size(), 0);
}

}  // namespace
}  // namespace coda::testing_support
