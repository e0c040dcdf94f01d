// Backend "fast" against "reference": every program of the library, and random programs.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "coda/epilogues.h"
#include "core/thread_count.h"
#include "cpu/fast_problem.h"
#include "support/random_program.h"

namespace coda {
namespace {

using namespace testing_support;

// Of the largest entry: fp32 sums over the depths used here, and the functions' own few ulp.
constexpr double kError = 1e-5;
// Random programs multiply the rounding of their fp32 values; a wrong entry is off by its own size.
constexpr double kRandomError = 2e-2;

class FastLibrary : public testing::TestWithParam<DType> {
 protected:
  ~FastLibrary() override { set_thread_count(0); }

  void compare(const Program& program, const ProblemOptions& options, const std::string& name) {
    const std::uint64_t seed = std::random_device{}();
    SCOPED_TRACE(name + ", " + std::to_string(options.rows) + " × " + std::to_string(options.cols) + " × " +
                 std::to_string(options.depth) + ", seed " + std::to_string(seed));
    RandomProblem problem(program, options, seed);
    set_thread_count(2);
    const std::vector<Matrix> got = problem.run(cpu::fast_backend());
    EXPECT_EQ(difference(got, problem.run(cpu::reference_backend()), kError), "");
    for (const int threads : {1, 3}) {
      set_thread_count(threads);
      EXPECT_EQ(difference(problem.run(cpu::fast_backend()), got, 0), "") << threads << " threads";
    }
  }
};

TEST_P(FastLibrary, IsTheReference) {
  for (const auto& [name, program] : epilogues::library()) {
    const std::int64_t unit = program.column_granule();
    const std::int64_t ragged = unit == 1 ? 83 : 2 * unit;
    compare(program, {.rows = 37, .cols = ragged, .depth = 45, .dtype = GetParam()}, name);
    compare(program, {.rows = 130, .cols = unit == 1 ? 330 : (330 / unit + 1) * unit, .depth = 64, .dtype = GetParam()},
            name);
    compare(program, {.rows = 7, .cols = ragged, .depth = 9, .dtype = GetParam(), .layouts = true}, name);
    if (HasFailure()) return;
  }
}

TEST_P(FastLibrary, TakesEmptyExtents) {
  for (const auto& [name, program] : epilogues::library()) {
    const std::int64_t cols = 2 * program.column_granule();
    compare(program, {.rows = 5, .cols = cols, .depth = 0, .dtype = GetParam()}, name);
    compare(program, {.rows = 0, .cols = cols, .depth = 8, .dtype = GetParam()}, name);
    const bool selects =
        std::ranges::any_of(program.nodes(), [](const Node& n) { return n.kind == NodeKind::SelectCol; });
    if (!selects) compare(program, {.rows = 5, .cols = 0, .depth = 8, .dtype = GetParam()}, name);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, FastLibrary, testing::Values(DType::F32, DType::BF16, DType::F16),
                         [](const auto& param) { return std::string(name_of(param.param)); });

// f64 operands, which "fast" refuses, become f32. Where values are compared or rounded, those loaded must be the same
// in fp32 as in double: a finished log-sum-exp is not.
Program comparable(const Program& program) {
  Program::Data data = program.data();
  const bool jumps = std::ranges::any_of(data.nodes, [](const Node& node) {
    const bool compares = node.kind == NodeKind::Map && (node.op == Op::Eq || node.op == Op::Lt || node.op == Op::Le);
    return compares || node.kind == NodeKind::Round;
  });
  for (Operand& operand : data.operands) {
    if (operand.dtype == DType::F64) operand.dtype = DType::F32;
    if (jumps && operand.partials && operand.role == Role::Input && operand.partials->op == Reduction::LogSumExp)
      operand.partials->op = Reduction::Max;
  }
  return Program(data);
}

RC_GTEST_PROP(FastRandom, IsTheReference, ()) {
  const Program program = comparable(*random_programs({.max_steps = 20}));
  const ProblemOptions options{.rows = *rc::gen::inRange<std::int64_t>(0, 150),
                               .cols = kRandomProgramColumns * *rc::gen::inRange<std::int64_t>(1, 12),
                               .depth = *rc::gen::inRange<std::int64_t>(0, 3),  // accumulators near 2
                               .dtype = *rc::gen::element(DType::F32, DType::BF16, DType::F16),
                               .large_sums = false,
                               .layouts = *rc::gen::arbitrary<bool>()};
  RandomProblem problem(program, options, *rc::gen::arbitrary<std::uint64_t>());
  const std::vector<Matrix> got = problem.run(cpu::fast_backend());
  RC_ASSERT(difference(got, problem.run(cpu::reference_backend()), kRandomError) == "");
}

}  // namespace
}  // namespace coda
