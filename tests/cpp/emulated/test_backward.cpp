// What differentiate() makes of the library, on the emulated GPU: reductions down columns, sums over heads of loaded
// tiles, sums of sums. And stores of rows and scalars.
#include <numeric>

#include "autodiff/backward_cases.h"
#include "coda/build.h"
#include "emulated/compare_all.h"

namespace coda::testing_support {
namespace {

class EmulatedBackward : public EmulatedTest {};

std::vector<NamedProgram> backward_programs() {
  std::vector<NamedProgram> programs;
  for (const BackwardCase& each : backward_cases()) {
    const Backward backward = differentiate(each.forward, each.wrt, each.cotangents, each.options);
    programs.emplace_back("backward_" + each.name, backward.program);
    for (const Gradient& gradient : backward.gradients)
      if (gradient.finish) programs.emplace_back("finish_" + each.name + "_" + gradient.of, *gradient.finish);
  }
  return programs;
}

TEST_F(EmulatedBackward, AlignedTensors) { compare_all(backward_programs(), 150, 200, true); }

TEST_F(EmulatedBackward, RaggedAndUnalignedTensors) { compare_all(backward_programs(), 67, 141, false); }

// Both members of a pair differ from their neighbours' heads; sums over them, of sums over them, in chunks that
// straddle heads.
Program sums_over_heads(std::int64_t head, bool with_product) {
  Builder b("sums_over_heads_" + std::to_string(head) + (with_product ? "_of_product" : ""));
  const Value x = b.load_tile("x");
  const Value z = with_product ? x + b.acc() : x * b.load_row("gamma", {.period = head});
  const Value mean = span_sum(z, head) * (1. / static_cast<double>(head));
  b.store("out", span_sum(square(z - mean), head) + z);
  b.store("down", reduce_col(z * mean, Reduction::Sum, 64));
  b.store("largest", reduce_col(z - mean, Reduction::Max, 64));
  b.store("across", reduce_row(z, Reduction::Sum, 64));
  return b.build();
}

TEST_F(EmulatedBackward, SumsOverHeadsOfEveryWidth) {
  std::vector<NamedProgram> programs;
  for (const std::int64_t head : {8, 12, 20, 36, 64, 72, 80, 96})
    for (const bool with_product : {false, true}) {
      if (with_product && std::lcm(head, std::int64_t{64}) > 256) continue;  // no tile holds whole heads and groups
      const Program program = sums_over_heads(head, with_product);
      programs.emplace_back(program.name(), program);
    }
  compare_all(programs, 70, 150, true);
}

// Vectors as outputs: of what was loaded, finished and joined, beside tiles and alone.
Program vectors(bool with_product) {
  constexpr Pairing kPairs{Pairing::Kind::Halves, 80, 20};
  Builder b(with_product ? "vectors_of_product" : "vectors");
  const Value finished = b.load_partials("sums", Reduction::Sum, Axis::Col), scale = b.load_scalar("scale");
  const Value angle = b.load_row("angle", {.pairing = kPairs});
  if (with_product) b.store("out", b.acc() * finished);
  b.store("finished", finished * scale);
  b.store("angles", angle + scale);
  b.store("twice", scale * 2);
  b.store("rows", b.load_col("x") + scale);
  return b.build();
}

TEST_F(EmulatedBackward, VectorsAreStored) {
  compare_all({{"vectors", vectors(false)}, {"vectors_of_product", vectors(true)}}, 70, 160, true);
  compare_all({{"vectors", vectors(false)}, {"vectors_of_product", vectors(true)}}, 67, 160, false);
}

// Maxima down columns keep NaN and infinities; rows past the end count for nothing.
TEST_F(EmulatedBackward, ReductionsDownColumnsKeepWhatIsNotFinite) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr std::int64_t kRows = 67, kCols = 32;
  std::vector<double> values(kRows * kCols, -5);
  values[3] = std::nan("");
  values[5] = kInf;
  values[5 + kCols] = -kInf;
  values[66 * kCols + 7] = -7;
  values[66 * kCols + 8] = kInf;
  Builder b("down");
  const Value x = b.load_tile("x");
  b.store("largest", reduce_col(x, Reduction::Max, 64));
  b.store("sums", reduce_col(x, Reduction::Sum, 64));
  const Program program = b.build();
  Case inputs(program, kRows, kCols, true, 1);
  inputs.give("x", Tensor::from({kRows, kCols}, values, DType::F32));
  compare(inputs, program);
}

// The passes over q, k and v of a layer: two programs, one of them twice, in one kernel.
TEST_F(EmulatedBackward, ProgramsSideBySide) {
  constexpr std::int64_t kRows = 67, kCols[] = {384, 128, 141, 0};
  std::vector<Case> cases;
  for (const std::int64_t cols : kCols)
    for (const BackwardCase& each : backward_cases())
      if (each.name == (cols % 64 == 0 && cols > 0 ? "rms_rope_bias" : "rms_bias"))
        cases.emplace_back(differentiate(each.forward, each.wrt, each.cotangents, each.options).program, kRows, cols,
                           false, static_cast<std::uint64_t>(cols));
  ASSERT_EQ(cases.size(), std::size(kCols));
  const auto run = [&](const Backend& backend, Device device) {
    std::vector<Matrix> outputs;
    std::vector<Segment> segments;
    for (Case& each : cases) segments.push_back(each.segment(device, outputs));
    const Problem problem = bind_elementwise("elementwise", kRows, kCols, segments);
    backend.plan(problem, {})->run(problem);
    for (const Matrix& matrix : outputs) expect_canaries(matrix);
    return outputs;
  };
  const auto expected = run(cpu::reference_backend(), {}), got = run(cuda::cuda_backend(), kGpu);
  for (std::size_t i = 0; i < expected.size(); ++i) expect_close(got[i], expected[i], "output " + std::to_string(i));
}

}  // namespace
}  // namespace coda::testing_support
