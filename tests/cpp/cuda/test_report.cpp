// report_kernel: kernels of invented problems, written and compiled without a GPU.
#include <gmock/gmock.h>

#include "coda/build.h"
#include "coda/cuda.h"
#include "coda/epilogues.h"
#include "cuda/cache_support.h"
#include "support/error_row.h"
#include "support/invented.h"

namespace coda::testing_support {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr Device kGpu{DeviceKind::Cuda, 0};

// 512 × 512 × 512 with bias_gelu, a checkpoint's weight as B.
Problem bias_gelu(DType dtype = DType::BF16, Device device = kGpu) {
  const Segment segment{epilogues::bias("gelu"),
                        {{"bias", invented({512}, dtype, device)}, {"out", invented({512, 512}, dtype, device)}}};
  return bind("report", invented({512, 512}, dtype, device), invented({512, 512}, dtype, device).transposed(),
              {&segment, 1});
}

TEST(Report, HasTheKernelInEveryForm) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC";
  const KernelReport report = report_kernel(bias_gelu());
  EXPECT_THAT(report.name, StartsWith("bias_gelu_"));
  EXPECT_THAT(report.text, HasSubstr("struct Epilogue"));
  EXPECT_THAT(report.compiler_log, HasSubstr("0 bytes spill stores, 0 bytes spill loads"));
  EXPECT_THAT(report.cubin, StartsWith("\177ELF"));
  EXPECT_GT(report.shared_bytes, 48 * 1024);
  EXPECT_LE(report.shared_bytes, find_arch(9, 0)->shared_bytes);
}

TEST(Report, HasTheKernelOfAProgramWithoutAProduct) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC";
  Builder b("doubled");
  b.store("out", b.load_tile("x") * 2.0);
  const Segment segment{b.build(), {{"x", invented({9, 512}, DType::BF16)}, {"out", invented({9, 512}, DType::BF16)}}};
  const KernelReport report = report_kernel(bind_elementwise("report", 9, 512, segment));
  EXPECT_EQ(report.name, "doubled");
  EXPECT_THAT(report.text, HasSubstr("run_elementwise"));
  EXPECT_THAT(report.cubin, StartsWith("\177ELF"));
}

TEST(Report, TakesTheScheduleItIsGiven) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC";
  const Schedule given{.tile_m = 128, .tile_n = 128, .stages = 3};
  const KernelReport report = report_kernel(bias_gelu(DType::F16), &given);
  EXPECT_EQ(to_text(report.schedule), to_text(given));
  EXPECT_THAT(report.name, HasSubstr("128x128"));
}

TEST(Report, RefusesWhatHasNoKernel) {
  const Schedule wide{.tile_n = 512};
  const std::vector<ErrorRow> rows{
      {typeid(ValueError),
       "report: the tensors are on cpu, expected a GPU, where kernels run: give them a device such as cuda:0; their "
       "pointers may be invented",
       [] { report_kernel(bias_gelu(DType::BF16, {})); }},
      {typeid(NotImplementedError),
       "report: backend 'cuda' cannot run this: A and B are f32, and Hopper's tensor cores multiply f32 only after "
       "rounding it to 11 bits (tf32); convert them to bf16 or f16, or run on the CPU",
       [] { report_kernel(bias_gelu(DType::F32)); }},
      {typeid(NotImplementedError),
       "report: schedule '128x512 cooperative, 4 stages, cluster 1x1, raster 8, sub 64, buffers 2+2' does not fit: "
       "tile_n is 512, expected a multiple of 16 from 64 to 256: take one of the candidates",
       [&] { report_kernel(bias_gelu(), &wide); }},
  };
  expect_errors(rows);
}

}  // namespace
}  // namespace coda::testing_support
