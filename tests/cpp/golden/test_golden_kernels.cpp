// The kernel of every library program that the CUDA backend emits is checked in, at one schedule: tests/golden/*.cu.
// CODA_UPDATE_GOLDEN=1 (tools/update_golden) rewrites the files instead of comparing.
#include <gtest/gtest.h>

#include "coda/build.h"
#include "coda/epilogues.h"
#include "cuda/backend.h"
#include "cuda/emit/kernel.h"
#include "golden/files.h"
#include "support/invented.h"

namespace coda {
namespace {

using testing_support::invented_matrix;
using testing_support::invented_operands;

std::string kernel_of(const Factor& a, const Factor& b, std::span<const Segment> segments, const Schedule& schedule) {
  const Problem problem = coda::bind("golden", a, b, segments);
  return cuda::emit_kernel(cuda::scheduled(problem, &schedule, *find_arch(9, 0), 132, ""));
}

// 1024 × 2048 × 512, bf16, a checkpoint's weight as B.
std::string kernel_of(const Program& program) {
  const TensorView a = invented_matrix(1024, 512, DType::BF16, false);
  const auto weight = [] { return invented_matrix(512, 2048, DType::BF16, true); };
  const Segment segment{program, invented_operands(program, 1024, 2048, DType::BF16)};
  const Factor b = program.accumulators() == 2 ? pair(weight(), weight()) : Factor(weight());
  return kernel_of(a, b, {&segment, 1}, {.tile_n = 128, .cluster_m = 2});
}

// Three segments, two programs, and the ways a tile travels: added to memory, staged, and past a ragged edge.
void expect_segments(GoldenFiles& files) {
  Builder b("accumulate");
  b.store("out", b.acc(), {.dtype = DType::F32, .accumulate = true});
  const Program accumulate = b.build(), residual = epilogues::residual();
  const auto part = [](std::int64_t cols) { return invented_matrix(512, cols, DType::BF16, false); };
  const std::vector<Segment> segments{{accumulate, invented_operands(accumulate, 1024, 2048, DType::BF16)},
                                      {residual, invented_operands(residual, 1024, 256, DType::BF16)},
                                      {residual, invented_operands(residual, 1024, 1001, DType::BF16)}};
  files.expect("segments",
               kernel_of(invented_matrix(1024, 512, DType::BF16, true), concat({part(2048), part(256), part(1001)}),
                         segments, {.tile_n = 64, .ping_pong = true}));
}

TEST(GoldenKernels, AreTheLibrarys) {
  GoldenFiles files(".cu");
  for (const auto& [name, program] : epilogues::library())
    if (!cuda::emit_refusal(program)) files.expect(name, kernel_of(program));
  expect_segments(files);
  files.expect_no_others();
}

}  // namespace
}  // namespace coda
