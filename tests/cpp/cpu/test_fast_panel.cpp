// Panel products of every instruction set, on whole numbers with tolerance 0, in every layout; packed panels; bits that
// do not depend on the other rows and columns.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "core/check.h"
#include "cpu/panel.h"
#include "cpu/panel_kernels.h"
#include "support/matrices.h"

namespace coda::cpu {
namespace {

using namespace testing_support;

constexpr float kPoison = 0x1.5p100f;

MatrixRef ref(const Matrix& m) { return {m.view.data(), m.view.dtype(), m.view.stride(0), m.view.stride(1)}; }

double dot(const Matrix& a, const Matrix& b, std::int64_t row, std::int64_t col) {
  double sum = 0;
  for (std::int64_t k = 0; k < a.view.shape(1); ++k) sum += a.view.at(row, k) * b.view.at(k, col);
  return sum;
}

// C between poisoned columns, which must stay.
class Result {
 public:
  Result(std::int64_t rows, std::int64_t cols, float first) : rows_(rows), cols_(cols), ldc_(cols + 3) {
    memory_.assign(static_cast<std::size_t>((rows + 1) * ldc_), kPoison);
    for (std::int64_t r = 0; r < rows; ++r) std::fill_n(data() + r * ldc_, cols, first);
  }
  float* data() { return memory_.data(); }
  std::int64_t pitch() const { return ldc_; }
  float at(std::int64_t r, std::int64_t c) const { return memory_[static_cast<std::size_t>(r * ldc_ + c)]; }

  void expect(const Matrix& a, const Matrix& b, double added) const {
    for (std::int64_t r = 0; r <= rows_; ++r)
      for (std::int64_t c = 0; c < ldc_; ++c)
        ASSERT_EQ(at(r, c), r < rows_ && c < cols_ ? dot(a, b, r, c) + added : kPoison) << "entry " << r << ", " << c;
  }

 private:
  std::int64_t rows_, cols_, ldc_;
  std::vector<float> memory_;
};

class FastPanel : public testing::TestWithParam<const PanelKernels* (*)()> {
 protected:
  const std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

TEST_P(FastPanel, MultipliesEveryLayoutAndShape) {
  const PanelKernels* kernels = GetParam()();
  if (kernels == nullptr) GTEST_SKIP() << "this machine lacks the instructions";
  const bool bf16_only = kernels == amx_panel_kernels();
  const std::int64_t extents[] = {1, 2, 13, 14, 16, 17, 31, 32, 33, 47, 64, 65};
  for (int round = 0; round < 300; ++round) {
    const auto extent = [&] { return extents[random_() % std::size(extents)]; };
    const DType dtype = bf16_only ? DType::BF16 : std::array{DType::F32, DType::BF16, DType::F16}[random_() % 3];
    const std::int64_t rows = extent(), cols = extent(), depth = extent();
    const Layout a_layout = kLayouts[random_() % std::size(kLayouts)],
                 b_layout = kLayouts[random_() % std::size(kLayouts)];
    SCOPED_TRACE(concat("seed ", seed_, ", round ", round, ": ", rows, " × ", cols, " × ", depth, " ", name_of(dtype),
                        ", layouts ", static_cast<int>(a_layout), ", ", static_cast<int>(b_layout)));
    const Matrix a = random_integers(random_, rows, depth, dtype, a_layout);
    const Matrix b = random_integers(random_, depth, cols, dtype, b_layout);
    // Packing fills its memory whole: what was there before does not matter.
    std::vector<std::uint16_t> packed_a(kernels->a_bytes(rows) / 2, 0x7fc1),
        packed_b(kernels->b_bytes(depth, cols) / 2, 0x7fc1);
    kernels->pack_b(ref(b), depth, cols, packed_b.data());
    const void* a_rows = a.view.data();
    std::int64_t pitch = a.view.stride(0);
    if (!kernels->reads_in_place(ref(a), rows, depth)) {
      kernels->pack_a(ref(a), rows, depth, packed_a.data());
      a_rows = packed_a.data();
      pitch = kernels->a_pitch;
    }
    for (const bool accumulate : {false, true}) {
      Result c(rows, cols, accumulate ? 5 : NAN);
      kernels->multiply(a_rows, pitch, packed_b.data(), rows, cols, depth, c.data(), c.pitch(), accumulate);
      c.expect(a, b, accumulate ? 5 : 0);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, FastPanel,
                         testing::Values(&portable_panel_kernels, &avx2_panel_kernels, &avx512_panel_kernels,
                                         &amx_panel_kernels));

TEST(FastPanelProduct, IsDeepWideAndEmpty) {
  std::mt19937_64 random(std::random_device{}());
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const std::int64_t depth : {std::int64_t{0}, std::int64_t{5}, kPanelDepth, 2 * kPanelDepth + 70}) {
      for (const std::int64_t rows : {0, 3, 160}) {
        const Matrix a = random_integers(random, rows, depth, dtype, Layout::Plain, -1, 1);
        const Matrix b = random_integers(random, depth, 37, dtype, Layout::Transposed, -1, 1);
        for (const bool accumulate : {false, true}) {
          Result c(rows, 37, accumulate ? 5 : NAN);
          panel_product(ref(a), ref(b), rows, 37, depth, c.data(), c.pitch(), accumulate);
          c.expect(a, b, accumulate ? 5 : 0);
        }
      }
    }
  }
}

// One fp32 chain over the whole depth would reach 7e-7 at 1536 and 1.2e-6 at 4096.
TEST(FastPanelProduct, ErrorDoesNotGrowWithTheDepth) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (const std::int64_t depth : {576, 1536, 4096}) {
    constexpr std::int64_t kRows = 24, kCols = 40;
    std::vector<float> a(static_cast<std::size_t>(kRows * depth)), b(static_cast<std::size_t>(depth * kCols));
    std::generate(a.begin(), a.end(), [&] { return normal(random); });
    std::generate(b.begin(), b.end(), [&] { return normal(random); });
    std::vector<float> c(kRows * kCols, kPoison);
    panel_product({a.data(), DType::F32, depth, 1}, {b.data(), DType::F32, kCols, 1}, kRows, kCols, depth, c.data(),
                  kCols);
    double error = 0, size = 0;
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t col = 0; col < kCols; ++col) {
        double exact = 0;
        for (std::int64_t k = 0; k < depth; ++k)
          exact += static_cast<double>(a[static_cast<std::size_t>(r * depth + k)]) *
                   b[static_cast<std::size_t>(k * kCols + col)];
        error += std::pow(c[static_cast<std::size_t>(r * kCols + col)] - exact, 2);
        size += exact * exact;
      }
    EXPECT_LT(std::sqrt(error / size), 4e-7) << "depth " << depth;
  }
}

TEST(FastPanelProduct, GivesEachRowTheSameBitsAlone) {
  std::mt19937_64 random(std::random_device{}());
  constexpr std::int64_t kRows = 70, kCols = 50, kDepth = 300;
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    const Matrix a = random_normal(random, kRows, kDepth, dtype, Layout::Padded);
    const Matrix b = random_normal(random, kDepth, kCols, dtype, Layout::Transposed);
    Result all(kRows, kCols, NAN);
    PackedPanel panel;
    panel.pack(ref(b), kDepth, kCols);
    panel.product(ref(a), kRows, all.data(), all.pitch());
    for (std::int64_t r = 0; r < kRows; r += 23) {
      Result one(1, 7, NAN);
      panel_product(ref(a).at(r, 0), ref(b).at(0, 11), 1, 7, kDepth, one.data(), one.pitch());
      for (std::int64_t c = 0; c < 7; ++c) EXPECT_EQ(one.at(0, c), all.at(r, c + 11)) << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace coda::cpu
