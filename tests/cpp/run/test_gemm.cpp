// gemm, elementwise and run: which backend they take, and that they bind and check before they write.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "coda/build.h"
#include "coda/error.h"
#include "coda/gemm.h"
#include "problem/before_plan.h"
#include "support/matrices.h"

namespace coda {
namespace {

using namespace testing_support;
using Numbers = std::vector<double>;

Program scaled() {
  Builder b("scaled");
  b.store("out", b.acc() * b.load_scalar("alpha"));
  return b.build();
}

const Tensor kA = Tensor::from({2, 2}, Numbers{1, 2, 3, 4});
const Tensor kB = Tensor::from({2, 2}, Numbers{1, 0, 0, -1});

TEST(Gemm, RunsOnEveryBackendAndByDefault) {
  std::vector<std::string_view> names = backend_names();
  EXPECT_NE(std::find(names.begin(), names.end(), "reference"), names.end());
  names.push_back({});
  const Tensor alpha = Tensor::from({}, Numbers{10});
  for (const std::string_view name : names) {
    const Matrix out = make_output(2, 2, DType::F32);
    gemm(kA, kB, scaled(), {{"alpha", alpha}, {"out", out.view}}, name);
    expect_canaries(out);
    EXPECT_EQ(values_of(out.view), (Numbers{10, -20, 30, -40})) << name;
  }
}

TEST(Gemm, TakesTheFirstBackendThatCan) {
  const Tensor a = Tensor::copy(kA, DType::F64), b = Tensor::copy(kB, DType::F64);
  const Tensor alpha = Tensor::from({}, Numbers{0.1}, DType::F64);
  const Matrix out = make_output(2, 2, DType::F64);
  gemm(a, b, scaled(), {{"alpha", alpha}, {"out", out.view}});
  EXPECT_EQ(values_of(out.view), (Numbers{0.1, -0.2, 3 * 0.1, -0.4}));
}

TEST(Gemm, RunsSegments) {
  const Tensor alpha = Tensor::from({}, Numbers{10}), beta = Tensor::from({}, Numbers{1});
  const Matrix left = make_output(2, 2, DType::F32), right = make_output(2, 2, DType::F32);
  const Segment segments[] = {{scaled(), {{"alpha", alpha}, {"out", left.view}}},
                              {scaled(), {{"alpha", beta}, {"out", right.view}}}};
  gemm(kA, concat({kB, kB}), segments);
  EXPECT_EQ(values_of(left.view), (Numbers{10, -20, 30, -40}));
  EXPECT_EQ(values_of(right.view), (Numbers{1, -2, 3, -4}));
}

TEST(Elementwise, RunsWithoutAProduct) {
  Builder b("plus");
  b.store("out", b.load_tile("x") + 1.0);
  const Matrix out = make_output(2, 2, DType::BF16);
  elementwise(2, 2, b.build(), {{"x", kA}, {"out", out.view}});
  EXPECT_EQ(values_of(out.view), (Numbers{2, 3, 4, 5}));
}

TEST(Run, TellsOfAProblemBeforeItsFirstPlan) {
  const Program program = scaled();
  const Tensor alpha = Tensor::from({}, Numbers{2}), out = Tensor::empty({2, 2}, DType::F32);
  const auto multiply = [&] { gemm(kA.view(), kB.view(), program, {{"alpha", alpha}, {"out", out}}); };
  multiply();
  std::vector<std::int64_t> told;
  const auto before =
      set_before_plan(std::make_shared<BeforePlan>([&](const Problem& problem, void*) { told.push_back(problem.m); }));
  multiply();
  multiply();
  EXPECT_EQ(told, std::vector<std::int64_t>{2});  // although it was planned before
  EXPECT_NE(set_before_plan(before), nullptr);
  multiply();
  EXPECT_EQ(told.size(), 1u);
}

// Columns count within a segment; one may have none.
TEST(Run, ProgramsSideBySideAreEachByItself) {
  constexpr std::int64_t kRows = 70, kCols[] = {5, 130, 0};
  Builder doubled("doubled"), numbered("numbered");
  doubled.store("out", doubled.load_tile("x") * 2.0);
  doubled.store("sums", reduce_col(doubled.load_tile("x"), Reduction::Sum, 64));
  numbered.store("out", numbered.load_tile("x") + numbered.col_index());
  const Program programs[] = {doubled.build(), numbered.build(), numbered.build()};
  std::mt19937_64 random(std::random_device{}());
  for (const std::string_view backend : {"reference", "fast"}) {
    std::vector<Matrix> x, out;
    std::vector<Segment> segments;
    const Matrix sums = make_output(2, kCols[0], DType::F32);
    for (std::size_t i = 0; i < std::size(kCols); ++i) {
      x.push_back(random_integers(random, kRows, kCols[i], DType::F32, Layout::Plain));
      out.push_back(make_output(kRows, kCols[i], DType::F32));
      segments.push_back({programs[i], {{"x", x[i].view}, {"out", out[i].view}}});
    }
    segments[0].operands.push_back({"sums", sums.view});
    elementwise(kRows, kCols, segments, backend);
    double sum = 0;
    for (std::int64_t r = 0; r < kRows; ++r) {
      if (r < 64) sum += x[0].view.at(r, 3);
      EXPECT_EQ(out[0].view.at(r, 3), 2 * x[0].view.at(r, 3));
      EXPECT_EQ(out[1].view.at(r, 129), x[1].view.at(r, 129) + 129);
    }
    EXPECT_EQ(sums.view.at(0, 3), sum);
    for (const Matrix& matrix : out) expect_canaries(matrix);
  }
}

TEST(Run, RefusesAnIndexBeforeItWrites) {
  Builder b("target");
  b.store("copy", b.load_tile("x") + 0.0);
  b.store("logit", select_col(b.load_tile("x"), b.load_col("target")));
  const Matrix copy = make_output(2, 2, DType::F32), logit = make_output(2, 1, DType::F32);
  const Tensor target = Tensor::from({2}, Numbers{1, 2}, DType::I32);
  const Operands operands = {{"x", kA}, {"target", target}, {"copy", copy.view}, {"logit", logit.view}};
  EXPECT_THROW(elementwise(2, 2, b.build(), operands), IndexError);
  for (const double value : values_of(copy.view)) EXPECT_TRUE(std::isnan(value));
  for (const double value : values_of(logit.view)) EXPECT_TRUE(std::isnan(value));
}

// The environment is read once, so each value needs a process of its own.
class BackendOption : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  [[noreturn]] static void run_with(const char* value) {
    setenv("CODA_BACKEND", value, 1);
    const Matrix out = make_output(2, 2, DType::F32);
    const Tensor alpha = Tensor::from({}, Numbers{10});
    try {
      gemm(kA, kB, scaled(), {{"alpha", alpha}, {"out", out.view}});
      std::fprintf(stderr, "got %g\n", out.view.at(0, 1));
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::exit(0);
  }
};

TEST_F(BackendOption, NamesTheBackend) {
  EXPECT_EXIT(run_with("reference"), testing::ExitedWithCode(0), "got -20");
  EXPECT_EXIT(run_with("refrence"), testing::ExitedWithCode(0), "backend 'refrence' is not in this build");
}

TEST(Threads, CanBeSetAndReset) {
  const int standard = num_threads();
  EXPECT_GE(standard, 1);
  set_num_threads(3);
  EXPECT_EQ(num_threads(), 3);
  set_num_threads(0);
  EXPECT_EQ(num_threads(), standard);
}

}  // namespace
}  // namespace coda
