// The kernel of every library program and of some backwards is checked in, at one schedule: tests/golden/*.cu.
// CODA_UPDATE_GOLDEN=1 (tools/update_golden) rewrites the files instead of comparing.
#include <gtest/gtest.h>

#include "autodiff/backward_cases.h"
#include "coda/build.h"
#include "coda/epilogues.h"
#include "cuda/backend.h"
#include "cuda/emit/elementwise.h"
#include "cuda/emit/kernel.h"
#include "cuda/emit/program.h"
#include "cuda/launch/layout.h"
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

// 1024 × about 2048 × 512, bf16, a checkpoint's weight as B; tiles of about 128 columns, whole heads in them.
std::string kernel_of(const Program& program, int stages = 4) {
  const auto unit = static_cast<int>(cuda::column_unit(program)), tile_n = std::max(128 / unit, 1) * unit;
  const std::int64_t cols = 2048 / unit * unit;
  const TensorView a = invented_matrix(1024, 512, DType::BF16, false);
  const auto weight = [&] { return invented_matrix(512, cols, DType::BF16, true); };
  const Segment segment{program, invented_operands(program, 1024, cols, DType::BF16)};
  if (program.accumulators() == 0)
    return cuda::emit_elementwise(cuda::specialise_elementwise(bind_elementwise("golden", 1024, cols, segment)));
  const Factor b = program.accumulators() == 2 ? pair(weight(), weight()) : Factor(weight());
  return kernel_of(
      a, b, {&segment, 1},
      {.tile_n = tile_n, .stages = tile_n > 128 ? 2 : stages, .cluster_m = 2, .sub = tile_n % 64 == 0 ? 64 : 16});
}

// What the library does not show by itself: pairs exchanged between threads, partials of columns, and sums over heads
// of loaded tiles.
void expect_backwards(GoldenFiles& files) {
  files.expect("rope_across_threads", kernel_of(epilogues::rope({{.head = 96, .width = 24}})));
  for (const testing_support::BackwardCase& each : testing_support::backward_cases())
    if (each.name == "residual_rms" || each.name == "rms_swiglu" || each.name == "qk_norm_rope")
      files.expect("backward_" + each.name,
                   kernel_of(differentiate(each.forward, each.wrt, each.cotangents, each.options).program, 2));
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

// The pass over the logits of a chunk: one segment.
void expect_pass(GoldenFiles& files) {
  for (const testing_support::BackwardCase& each : testing_support::backward_cases()) {
    if (each.name != "lse_logits") continue;
    const Program program = differentiate(each.forward, each.wrt, each.cotangents, each.options).program;
    constexpr std::int64_t kCols[] = {512};
    const std::vector<Segment> segments{{program, invented_operands(program, 1024, kCols[0], DType::BF16)}};
    files.expect("elementwise", cuda::emit_elementwise(
                                    cuda::specialise_elementwise(bind_elementwise("golden", 1024, kCols, segments))));
  }
}

// The passes over q, k and v of a layer's backward: three segments, two programs.
void expect_side_by_side(GoldenFiles& files) {
  std::vector<Segment> segments;
  constexpr std::int64_t kCols[] = {1024, 256, 256};
  for (const testing_support::BackwardCase& each : testing_support::backward_cases()) {
    if (each.name != "rms" && each.name != "rms_rope") continue;
    const Program program = differentiate(each.forward, each.wrt, each.cotangents, each.options).program;
    const auto add = [&](std::int64_t cols) {
      segments.push_back({program, invented_operands(program, 1024, cols, DType::BF16)});
    };
    if (each.name == "rms_rope") add(kCols[0]);
    add(256);
  }
  files.expect("elementwise_segments",
               cuda::emit_elementwise(cuda::specialise_elementwise(bind_elementwise("golden", 1024, kCols, segments))));
}

TEST(GoldenKernels, AreTheLibrarys) {
  GoldenFiles files(".cu");
  for (const auto& [name, program] : epilogues::library()) files.expect(name, kernel_of(program));
  expect_backwards(files);
  expect_segments(files);
  expect_pass(files);
  expect_side_by_side(files);
  files.expect_no_others();
}

}  // namespace
}  // namespace coda
