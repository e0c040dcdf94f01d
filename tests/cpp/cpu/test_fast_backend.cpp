// Backend "fast" beyond the library's programs: views of factors, plans used again, bits that do not depend on threads
// or other rows, outputs in place, wide heads and partials, several users at once.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <thread>

#include "coda/build.h"
#include "coda/epilogues.h"
#include "core/thread_count.h"
#include "cpu/fast_problem.h"

namespace coda {
namespace {

using namespace testing_support;

constexpr DType kDtypes[] = {DType::F32, DType::BF16, DType::F16};
constexpr double kError = 1e-5;

Program program_of(const std::function<void(Builder&)>& write) {
  Builder b("program");
  write(b);
  return b.build();
}

class FastBackend : public testing::Test {
 protected:
  FastBackend() { RecordProperty("seed", std::to_string(seed_)); }
  ~FastBackend() override { set_thread_count(0); }

  void compare(const Program& program, ProblemOptions options, double error = kError) {
    RandomProblem problem(program, options, random_());
    const std::vector<Matrix> got = problem.run(cpu::fast_backend());
    EXPECT_EQ(difference(got, problem.run(cpu::reference_backend()), error), "")
        << to_text(program) << options.rows << " × " << options.cols << " × " << options.depth << ", seed " << seed_;
  }

  const std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

TEST_F(FastBackend, IsExactOnWholeNumbersOfEveryShapeAndLayout) {
  const Program sum = program_of([](Builder& b) { b.store("out", b.acc() + b.load_tile("x")); });
  const std::int64_t extents[] = {0, 1, 7, 16, 17, 63, 64, 65, 130};
  for (int round = 0; round < 200; ++round) {
    const auto extent = [&] { return extents[random_() % std::size(extents)]; };
    compare(sum,
            {.rows = extent(),
             .cols = extent(),
             .depth = extent(),
             .dtype = kDtypes[round % 3],
             .integers = true,
             .layouts = true},
            0);
  }
  compare(sum, {.rows = 600, .cols = 700, .depth = 1700, .dtype = DType::F32, .integers = true}, 0);
  compare(sum, {.rows = 4200, .cols = 70, .depth = 33, .dtype = DType::BF16, .integers = true}, 0);
}

TEST_F(FastBackend, SumsConcatenatedDepths) {
  for (const DType dtype : kDtypes) {
    const Matrix a0 = random_integers(random_, 70, 40, dtype, Layout::Padded);
    const Matrix a1 = random_integers(random_, 70, 0, dtype, Layout::Padded);
    const Matrix a2 = random_integers(random_, 70, 900, dtype, Layout::Transposed);
    const Matrix b0 = random_integers(random_, 40, 90, dtype, Layout::Transposed);
    const Matrix b1 = random_integers(random_, 0, 90, dtype, Layout::Padded);
    const Matrix b2 = random_integers(random_, 900, 90, dtype, Layout::Stepped);
    const Matrix got = make_output(70, 90, DType::F32), expected = make_output(70, 90, DType::F32);
    for (const auto& [backend, out] : {std::pair{&cpu::fast_backend(), &got}, {&cpu::reference_backend(), &expected}}) {
      const Segment segment{epilogues::identity(), {{"out", out->view}}};
      const Problem problem =
          bind("gemm", concat_k({a0.view, a1.view, a2.view}), concat_k({b0.view, b1.view, b2.view}), {&segment, 1});
      backend->plan(problem)->run(problem);
    }
    EXPECT_EQ(values_of(got.view), values_of(expected.view));
  }
}

// Segments along N with programs, widths and accumulators of their own, and along M.
TEST_F(FastBackend, RunsEachSegmentsProgram) {
  const Program plus = program_of([](Builder& b) { b.store("out", b.acc() + b.col_index()); });
  const Program sums = program_of([](Builder& b) { b.store("out", reduce_row(b.acc(), Reduction::Sum, 64)); });
  const Matrix x = random_integers(random_, 37, 50, DType::BF16, Layout::Padded);
  const Matrix w0 = random_integers(random_, 50, 100, DType::BF16, Layout::Transposed);
  const Matrix w1 = random_integers(random_, 50, 0, DType::BF16, Layout::Transposed);
  const Matrix w2 = random_integers(random_, 50, 300, DType::BF16, Layout::Transposed);
  const auto run = [&](const Backend& backend, bool along_rows) {
    const std::int64_t m = along_rows ? 300 : 37;
    std::vector<Matrix> outs;
    outs.push_back(along_rows ? make_output(100, 37, DType::F32) : make_output(m, 100, DType::F32));
    outs.push_back(along_rows ? make_output(0, 37, DType::F32) : make_output(m, 0, DType::F32));
    outs.push_back(along_rows ? make_output(m, 1, DType::F32) : make_output(m, 5, DType::F32));
    const Segment segments[] = {
        {plus, {{"out", outs[0].view}}}, {plus, {{"out", outs[1].view}}}, {sums, {{"out", outs[2].view}}}};
    const Factor wide = concat({w0.view, w1.view, w2.view});
    const Factor tall = concat({w0.view.transposed(), w1.view.transposed(), w2.view.transposed()});
    const Problem problem =
        along_rows ? bind("gemm", tall, x.view.transposed(), segments) : bind("gemm", x.view, wide, segments);
    backend.plan(problem)->run(problem);
    for (const Matrix& out : outs) expect_canaries(out);
    return outs;
  };
  for (const bool along_rows : {false, true})
    EXPECT_EQ(difference(run(cpu::fast_backend(), along_rows), run(cpu::reference_backend(), along_rows), 0), "");
}

TEST_F(FastBackend, TakesHeadsAndPartialsWiderThanAPanel) {
  const Pairing wide{Pairing::Kind::Halves, 1536, 1000};
  const Program program = program_of([&](Builder& b) {
    const auto [first, second] = split(b.acc(), wide);
    const Value turned = join(second, first, b.acc());
    b.store("out", turned / (span_sum(square(turned), 1536) + 1.0));
    b.store("sums", reduce_row(turned, Reduction::Sum, 2048));
    b.store("most", reduce_row(turned, Reduction::Max, 192));
  });
  compare(program, {.rows = 70, .cols = 3072, .depth = 20, .dtype = DType::BF16});
  compare(program, {.rows = 530, .cols = 1536, .depth = 800, .dtype = DType::F32});
}

TEST_F(FastBackend, ReducesAlongColumns) {
  for (const Reduction op : {Reduction::Sum, Reduction::Max, Reduction::LogSumExp}) {
    for (const std::int64_t width : {64, 192, 1024, 8192}) {
      const Program program = program_of([&](Builder& b) { b.store("out", reduce_col(b.acc(), op, width)); });
      for (const std::int64_t rows : {1, 64, 65, 1200, 5000})
        compare(program, {.rows = rows, .cols = 83, .depth = 3, .dtype = DType::F32});
    }
  }
}

TEST_F(FastBackend, FinishesPartials) {
  for (const Axis axis : {Axis::Row, Axis::Col}) {
    for (const Reduction op : {Reduction::Sum, Reduction::Max, Reduction::LogSumExp}) {
      const Program program =
          program_of([&](Builder& b) { b.store("out", b.acc() + b.load_partials("part", op, axis)); });
      compare(program, {.rows = 83, .cols = 83, .depth = 3, .large_sums = false, .layouts = true});
      compare(program, {.rows = 83, .cols = 83, .depth = 3, .large_sums = false});
    }
  }
}

TEST_F(FastBackend, StoresRowsColsAndScalarsOnce) {
  const Program program = program_of([](Builder& b) {
    b.store("tile", b.acc());
    b.store("row", b.load_row("r") + b.col_index(), {.accumulate = true});
    b.store("col", b.load_col("c") * b.row_index(), {.accumulate = true});
    b.store("scalar", b.load_scalar("s") * 2.0, {.accumulate = true});
  });
  for (const std::int64_t rows : {0, 1, 700})
    for (const std::int64_t cols : {0, 1, 700})
      compare(program, {.rows = rows, .cols = cols, .depth = 5, .integers = true, .layouts = true}, 0);
}

TEST_F(FastBackend, WritesInPlaceOfATileItReads) {
  for (const DType dtype : kDtypes) {
    const Program program = program_of([](Builder& b) {
      b.store("first", b.acc());  // before x is loaded
      b.store("second", b.load_tile("x") + b.load_tile("y"));
    });
    const Matrix a = random_integers(random_, 90, 8, dtype, Layout::Padded);
    const Matrix b = random_integers(random_, 8, 160, dtype, Layout::Padded);
    const auto run = [&](const Backend& backend) {
      std::mt19937_64 same(11);
      std::vector<Matrix> tiles;
      for (int i = 0; i < 2; ++i) tiles.push_back(random_integers(same, 90, 160, dtype, Layout::Plain));
      const Segment segment{
          program, {{"x", tiles[0].view}, {"y", tiles[1].view}, {"first", tiles[0].view}, {"second", tiles[1].view}}};
      const Problem problem = bind("gemm", a.view, b.view, {&segment, 1});
      backend.plan(problem)->run(problem);
      return tiles;
    };
    EXPECT_EQ(difference(run(cpu::fast_backend()), run(cpu::reference_backend()), 0), "") << name_of(dtype);
  }
}

TEST_F(FastBackend, GivesTheSameBitsForAnyThreads) {
  const Program program = program_of([](Builder& b) {
    b.store("out", gelu(b.acc()));
    b.store("sums", reduce_row(b.acc(), Reduction::Sum, 64));
    b.store("lse", reduce_col(b.acc(), Reduction::LogSumExp, 64));
  });
  for (const DType dtype : kDtypes) {
    RandomProblem problem(program, {.rows = 300, .cols = 1000, .depth = 900, .dtype = dtype}, random_());
    set_thread_count(1);
    const std::vector<Matrix> expected = problem.run(cpu::fast_backend());
    for (const int threads : {1, 2, 3, 7}) {
      set_thread_count(threads);
      EXPECT_EQ(difference(problem.run(cpu::fast_backend()), expected, 0), "") << threads << " threads";
    }
  }
}

// A plan made for one M runs any other; each row's bits are those it has alone, and a NaN stays in its row.
TEST_F(FastBackend, KeepsRowsApart) {
  constexpr std::int64_t kRows = 200, kCols = 160, kDepth = 330;
  const Program program = program_of([](Builder& b) { b.store("out", silu(b.acc())); });
  for (const DType dtype : kDtypes) {
    const Matrix a = random_normal(random_, kRows, kDepth, dtype, Layout::Plain);
    const Matrix b = random_normal(random_, kDepth, kCols, dtype, Layout::Transposed);
    std::unique_ptr<Plan> plan;
    const auto run = [&](std::int64_t first, std::int64_t stop) {
      const Matrix out = make_output(stop - first, kCols, DType::F32);
      const Segment segment{program, {{"out", out.view}}};
      const Problem problem = bind("gemm", a.view.slice(0, first, stop), b.view, {&segment, 1});
      if (!plan) plan = cpu::fast_backend().plan(problem);
      plan->run(problem);
      return values_of(out.view);
    };
    const std::vector<double> all = run(0, kRows);
    for (const std::int64_t row : {0, 77, 199}) {
      const std::vector<double> alone = run(row, row + 1);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + row * kCols)) << name_of(dtype);
    }
    set(a.view, 77, 5, NAN);
    const std::vector<double> poisoned = run(0, kRows);
    for (std::size_t e = 0; e < all.size(); ++e) {
      if (e / kCols == 77) {
        ASSERT_TRUE(std::isnan(poisoned[e]));
      } else {
        ASSERT_EQ(poisoned[e], all[e]);
      }
    }
  }
}

TEST_F(FastBackend, ServesSeveralUsersOfOnePlan) {
  const Program program = program_of([](Builder& b) { b.store("out", tanh(b.acc())); });
  const Matrix a = random_normal(random_, 150, 100, DType::BF16, Layout::Plain);
  const Matrix b = random_normal(random_, 100, 300, DType::BF16, Layout::Transposed);
  std::vector<Matrix> outs;
  for (int i = 0; i < 3; ++i) outs.push_back(make_output(150, 300, DType::F32));
  const auto problem_of = [&](const Matrix& out) {
    const Segment segment{program, {{"out", out.view}}};
    return bind("gemm", a.view, b.view, {&segment, 1});
  };
  const auto plan = cpu::fast_backend().plan(problem_of(outs[0]));
  std::vector<std::thread> users;
  for (const Matrix& out : outs)
    users.emplace_back([&] {
      const Problem problem = problem_of(out);
      for (int round = 0; round < 50; ++round) plan->run(problem);
    });
  for (std::thread& user : users) user.join();
  for (const Matrix& out : outs) EXPECT_EQ(values_of(out.view), values_of(outs[0].view));
}

TEST_F(FastBackend, RefusesDoubles) {
  const Matrix a = random_normal(random_, 2, 2, DType::F32, Layout::Plain);
  const Matrix out = make_output(2, 2, DType::F64);
  const Segment segment{epilogues::identity(), {{"out", out.view}}};
  const Problem problem = bind("gemm", a.view, a.view, {&segment, 1});
  EXPECT_EQ(cpu::fast_backend().refuses(problem),
            "it computes in f32 and takes no f64 tensor; use the backend 'reference'");
}

}  // namespace
}  // namespace coda
