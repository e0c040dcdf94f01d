// The matrix product of the reference, on whole numbers with tolerance 0: every extent, layout, dtype and factor view.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "coda/build.h"
#include "coda/problem.h"
#include "cpu/reference.h"
#include "support/matrices.h"

namespace coda {
namespace {

using namespace testing_support;

constexpr DType kFloats[] = {DType::F64, DType::F32, DType::BF16, DType::F16};
constexpr std::int64_t kExtents[] = {0, 1, 7, 63, 64, 65, 130};

Program identity() {
  Builder b("identity");
  b.store("out", b.acc());
  return b.build();
}

void run(const Factor& a, const Factor& b, const std::vector<Segment>& segments) {
  const Problem problem = coda::bind("gemm", a, b, segments);
  cpu::reference_backend().plan(problem)->run(problem);
}

std::int64_t dot(const TensorView& a, const TensorView& b, std::int64_t row, std::int64_t col) {
  std::int64_t sum = 0;
  for (std::int64_t k = 0; k < a.shape(1); ++k)
    sum += static_cast<std::int64_t>(a.at(row, k)) * static_cast<std::int64_t>(b.at(k, col));
  return sum;
}

class ReferenceProduct : public testing::Test {
 protected:
  template <class T, std::size_t Count>
  T pick(const T (&from)[Count], std::size_t count = Count) {
    return from[std::uniform_int_distribution<std::size_t>(0, count - 1)(random_)];
  }
  Matrix integers(std::int64_t rows, std::int64_t cols, DType dtype) {
    return random_integers(random_, rows, cols, dtype, pick(kLayouts));
  }
  Matrix output(std::int64_t rows, std::int64_t cols) {
    return make_output(rows, cols, pick(kFloats), pick(kLayouts, kOutputLayouts));
  }
  // `sum(row, col)` is the exact product.
  template <class Sum>
  void expect_rounded(const Matrix& out, Sum&& sum) {
    expect_canaries(out);
    for (std::int64_t r = 0; r < out.view.shape(0); ++r)
      for (std::int64_t c = 0; c < out.view.shape(1); ++c)
        ASSERT_EQ(out.view.at(r, c), round_to(out.view.dtype(), static_cast<double>(sum(r, c))))
            << "seed " << seed_ << ", entry " << r << ", " << c << " of " << shape_text(out.view.shape());
  }

  const std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

TEST_F(ReferenceProduct, IsExactForEveryExtent) {
  for (const std::int64_t m : kExtents)
    for (const std::int64_t n : kExtents)
      for (const std::int64_t k : kExtents) {
        const DType dtype = pick(kFloats);
        const Matrix a = integers(m, k, dtype), b = integers(k, n, dtype), out = output(m, n);
        run(a.view, b.view, {{identity(), {{"out", out.view}}}});
        expect_rounded(out, [&](auto r, auto c) { return dot(a.view, b.view, r, c); });
      }
}

TEST_F(ReferenceProduct, IsExactForEveryLayout) {
  for (const Layout left : kLayouts)
    for (const Layout right : kLayouts)
      for (int i = 0; i < kOutputLayouts; ++i) {
        const DType dtype = pick(kFloats);
        const Matrix a = random_integers(random_, 5, 9, dtype, left), b = random_integers(random_, 9, 7, dtype, right);
        const Matrix out = make_output(5, 7, pick(kFloats), kLayouts[i]);
        run(a.view, b.view, {{identity(), {{"out", out.view}}}});
        expect_rounded(out, [&](auto r, auto c) { return dot(a.view, b.view, r, c); });
      }
}

TEST_F(ReferenceProduct, OfAPairHasTwoAccumulators) {
  Builder b("both");
  b.store("first", b.acc(0));
  b.store("difference", b.acc(0) - b.acc(1));
  const Matrix a = integers(65, 30, DType::F32), gate = integers(30, 9, DType::F32), up = integers(30, 9, DType::F32);
  const Matrix first = output(65, 9), difference = output(65, 9);
  run(a.view, pair(gate.view, up.view), {{b.build(), {{"first", first.view}, {"difference", difference.view}}}});
  expect_rounded(first, [&](auto r, auto c) { return dot(a.view, gate.view, r, c); });
  expect_rounded(difference, [&](auto r, auto c) { return dot(a.view, gate.view, r, c) - dot(a.view, up.view, r, c); });
}

// Row and column numbers count within each segment.
TEST_F(ReferenceProduct, OfAConcatHasSegments) {
  Builder b("numbered");
  b.store("out", b.acc() + b.row_index() * 1000.0 + b.col_index());
  const Program numbered = b.build();
  const Matrix x = integers(66, 8, DType::BF16), y = integers(8, 5, DType::BF16);
  const Matrix more_rows = integers(3, 8, DType::BF16), more_cols = integers(8, 70, DType::BF16);
  const Matrix none = integers(8, 0, DType::BF16), left = make_output(66, 5, DType::F32),
               lower = make_output(3, 5, DType::F32);
  const Matrix right = make_output(66, 70, DType::F32), empty = make_output(66, 0, DType::F32);
  run(x.view, concat({y.view, none.view, more_cols.view}),
      {{numbered, {{"out", left.view}}}, {identity(), {{"out", empty.view}}}, {numbered, {{"out", right.view}}}});
  expect_rounded(left, [&](auto r, auto c) { return dot(x.view, y.view, r, c) + 1000 * r + c; });
  expect_rounded(right, [&](auto r, auto c) { return dot(x.view, more_cols.view, r, c) + 1000 * r + c; });
  run(concat({x.view, more_rows.view}), y.view,
      {{identity(), {{"out", left.view}}}, {numbered, {{"out", lower.view}}}});
  expect_rounded(left, [&](auto r, auto c) { return dot(x.view, y.view, r, c); });
  expect_rounded(lower, [&](auto r, auto c) { return dot(more_rows.view, y.view, r, c) + 1000 * r + c; });
}

TEST_F(ReferenceProduct, OfAConcatKIsASum) {
  const Matrix a[] = {integers(65, 3, DType::F16), integers(65, 0, DType::F16), integers(65, 17, DType::F16)};
  const Matrix b[] = {integers(3, 11, DType::F16), integers(0, 11, DType::F16), integers(17, 11, DType::F16)};
  const Matrix out = output(65, 11);
  run(concat_k({a[0].view, a[1].view, a[2].view}), concat_k({b[0].view, b[1].view, b[2].view}),
      {{identity(), {{"out", out.view}}}});
  expect_rounded(out,
                 [&](auto r, auto c) { return dot(a[0].view, b[0].view, r, c) + dot(a[2].view, b[2].view, r, c); });
}

TEST_F(ReferenceProduct, NaNReachesItsRowAlone) {
  const Matrix a = random_normal(random_, 130, 9, DType::F32, Layout::Plain);
  const Matrix b = random_normal(random_, 9, 66, DType::F32, Layout::Transposed);
  set(a.view, 70, 4, std::nan(""));
  const Matrix out = make_output(130, 66, DType::F32);
  run(a.view, b.view, {{identity(), {{"out", out.view}}}});
  for (std::int64_t r = 0; r < 130; ++r)
    for (std::int64_t c = 0; c < 66; ++c) ASSERT_EQ(std::isnan(out.view.at(r, c)), r == 70) << r << ", " << c;
}

TEST_F(ReferenceProduct, RowsDoNotDependOnOneAnother) {
  const Matrix a = random_normal(random_, 130, 33, DType::F32, Layout::Plain);
  const Matrix b = random_normal(random_, 33, 70, DType::F32, Layout::Plain);
  const Matrix all = make_output(130, 70, DType::F64);
  run(a.view, b.view, {{identity(), {{"out", all.view}}}});
  for (const std::int64_t row : {0, 63, 64, 129}) {
    const Matrix one = make_output(1, 70, DType::F64);
    run(a.view.slice(0, row, row + 1), b.view, {{identity(), {{"out", one.view}}}});
    EXPECT_EQ(values_of(one.view), values_of(all.view.slice(0, row, row + 1))) << "seed " << seed_ << ", row " << row;
  }
}

}  // namespace
}  // namespace coda
