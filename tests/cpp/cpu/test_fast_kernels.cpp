// The vector kernels of every instruction set this machine has, against double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "cpu/fast/kernels.h"
#include "support/matrices.h"

namespace coda::cpu {
namespace {

using namespace testing_support;

class FastKernels : public testing::TestWithParam<const Kernels* (*)()> {
 protected:
  void SetUp() override {
    kernels_ = GetParam()();
    if (kernels_ == nullptr) GTEST_SKIP() << "this machine lacks the instructions";
    RecordProperty("seed", std::to_string(seed_));
  }

  std::vector<float> map(Op op, const std::vector<float>& in) const {
    std::vector<float> out(in.size());
    const Arg arg{in.data(), 0, false};
    kernels_->map(op, {1, static_cast<std::int64_t>(in.size())}, &arg, {out.data(), 0});
    return out;
  }

  const Kernels* kernels_ = nullptr;
  const std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

// Distance in units in the last place of the exact result.
double ulps(float got, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(got) ? 0 : HUGE_VAL;
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : HUGE_VAL;
  int exponent = 0;
  std::frexp(rounded, &exponent);
  return std::abs(got - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// Every sixteenth-thousandth float of all, NaN, infinities and denormals among them.
TEST_P(FastKernels, FunctionsAreAccurateOverTheirWholeRange) {
  constexpr std::uint32_t kStep = 16411;
  const struct {
    Op op;
    double limit;  // ulp
  } functions[] = {{Op::Exp, 1.5}, {Op::Exp2, 1.5}, {Op::Log, 1},  {Op::Sigmoid, 2.5}, {Op::Tanh, 1.5},
                   {Op::Erf, 1.5}, {Op::Sin, 2},    {Op::Cos, 2},  {Op::Rsqrt, 1.5},   {Op::Sqrt, 0.5},
                   {Op::Rcp, 0.5}, {Op::Square, 1}, {Op::Relu, 0}, {Op::Abs, 0},       {Op::Neg, 0}};
  std::vector<float> in;
  for (std::uint64_t bits = seed_ % kStep; bits < (std::uint64_t{1} << 32); bits += kStep)
    in.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  in.resize(in.size() / kPad * kPad);
  for (const auto& [op, limit] : functions) {
    const std::vector<float> out = map(op, in);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double x = in[i];
      ASSERT_LE(ulps(out[i], op_row(op).reference(&x)), limit) << op_row(op).name << " of " << x << " is " << out[i];
    }
  }
}

TEST_P(FastKernels, OpsBroadcastEveryArgument) {
  constexpr std::int64_t kRows = 3, kCols = 32;
  const float special[] = {0, -0.0f, 1, NAN, INFINITY, -INFINITY, 0.5f, -2};
  std::vector<float> memory(3 * kRows * kCols);
  for (const OpRow& row : op_table()) {
    for (int spread = 0; spread < 1 << row.arity; ++spread) {
      for (float& value : memory)
        value = random_() % 4 == 0 ? special[random_() % 8] : std::normal_distribution<float>()(random_);
      Arg args[3];
      for (int i = 0; i < 3; ++i) args[i] = {memory.data() + i * kRows * kCols, kCols, ((spread >> i) & 1) != 0};
      std::vector<float> out(kRows * kCols);
      kernels_->map(row.op, {kRows, kCols}, args, {out.data(), kCols});
      for (std::int64_t e = 0; e < kRows * kCols; ++e) {
        double values[3];
        for (int i = 0; i < 3; ++i) values[i] = args[i].data[args[i].spread ? e / kCols * kCols : e];
        ASSERT_LE(ulps(out[static_cast<std::size_t>(e)], row.reference(values)), 4)
            << row.name << " of " << values[0] << ", " << values[1] << ", " << values[2] << ", seed " << seed_;
      }
    }
  }
}

// Every half-precision number widens exactly, and floats around each boundary round to nearest, ties to even.
TEST_P(FastKernels, StoredTypesConvert) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    std::vector<std::uint16_t> stored(1 << 16);
    for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<std::uint16_t>(i);
    const auto count = static_cast<std::int64_t>(stored.size());
    std::vector<float> wide(stored.size());
    kernels_->load({1, count}, {stored.data(), dtype, 0, 1}, {wide.data(), 0});
    for (std::int64_t i = 0; i < count; ++i) {
      const double exact = load_element(dtype, stored.data(), i);
      ASSERT_LE(ulps(wide[static_cast<std::size_t>(i)], exact), 0) << name_of(dtype) << " " << i;
    }
    std::vector<float> values;
    for (const float value : wide)
      for (const std::int32_t step : {-4097, -4096, -4095, -1, 0, 1, 4095, 4096, 4097, 32767, 32768, 32769})
        values.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) + static_cast<std::uint32_t>(step)));
    std::vector<std::uint16_t> rounded(values.size());
    kernels_->store({1, static_cast<std::int64_t>(values.size())}, {values.data(), 0, false},
                    {rounded.data(), dtype, 0, 1}, false);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double got = load_element(dtype, rounded.data(), static_cast<std::int64_t>(i));
      ASSERT_LE(ulps(static_cast<float>(got), round_to(dtype, values[i])), 0) << name_of(dtype) << " " << values[i];
    }
  }
}

TEST_P(FastKernels, LoadAndStoreEveryLayout) {
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16, DType::I32, DType::I64}) {
    for (const Layout layout : kLayouts) {
      for (const std::int64_t cols : {0, 1, 15, 16, 17, 40}) {
        const Matrix from = random_integers(random_, 3, cols, dtype, layout);
        std::vector<float> wide(3 * 48);
        const auto ref = [](const Matrix& m) {
          return MemoryRef{m.view.data(), m.view.dtype(), m.view.stride(0), m.view.stride(1)};
        };
        kernels_->load({3, cols}, ref(from), {wide.data(), 48});
        if (layout >= kLayouts[kOutputLayouts]) continue;
        for (const bool accumulate : {false, true}) {
          const Matrix to = random_integers(random_, 3, cols, dtype, layout);
          std::vector<double> expected = values_of(to.view);
          for (std::size_t e = 0; e < expected.size(); ++e)
            expected[e] = (accumulate ? expected[e] : 0) + values_of(from.view)[e];
          kernels_->store({3, cols}, {wide.data(), 48, false}, ref(to), accumulate);
          expect_canaries(to);
          EXPECT_EQ(values_of(to.view), expected) << name_of(dtype) << ", " << cols << " columns";
        }
      }
    }
  }
}

TEST_P(FastKernels, ReductionsKeepInfinitiesAndNaN) {
  const float infinity = INFINITY;
  std::vector<float> in(5 * 32, -infinity);  // rows: all −inf; one +inf; one NaN; one finite; ordinary
  in[32 + 3] = infinity;
  in[64 + 20] = NAN;
  in[96 + 31] = 2;
  for (std::size_t i = 128; i < 160; ++i) in[i] = 100;
  const auto reduce = [&](Reduction op) {
    std::vector<float> out(5);
    kernels_->reduce_row(op, {5, 32}, 32, {in.data(), 32, false}, {out.data(), 1});
    return out;
  };
  const std::vector<float> lse = reduce(Reduction::LogSumExp), largest = reduce(Reduction::Max);
  for (const auto& out : {lse, largest}) {
    EXPECT_EQ(out[0], -infinity);
    EXPECT_EQ(out[1], infinity);
    EXPECT_TRUE(std::isnan(out[2]));
    EXPECT_EQ(out[3], 2);
  }
  EXPECT_FLOAT_EQ(lse[4], 100 + std::log(32.0f));
  // Along columns the same five rows, turned.
  std::vector<float> turned(32 * 16, 0), state(32, 0);
  for (std::size_t c = 0; c < 5; ++c)
    for (std::size_t r = 0; r < 32; ++r) turned[r * 16 + c] = in[c * 32 + r];
  kernels_->reduce_col(Reduction::LogSumExp, {32, 5}, {turned.data(), 16, false}, {state.data(), 16}, true);
  kernels_->finish_col(Reduction::LogSumExp, 5, {state.data(), 16});
  for (std::size_t c = 0; c < 5; ++c) EXPECT_LE(ulps(state[c], lse[c]), 4) << "column " << c;
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, FastKernels,
                         testing::Values(&portable_kernels, &avx2_kernels, &avx512_kernels));

}  // namespace
}  // namespace coda::cpu
