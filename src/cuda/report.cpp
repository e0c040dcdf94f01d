// report_kernel: a kernel as it would be run, for people to read.
#include "coda/cuda.h"
#include "core/check.h"
#include "cuda/backend.h"
#include "cuda/compile/nvrtc.h"
#include "cuda/emit/distinct.h"
#include "cuda/emit/elementwise.h"
#include "cuda/emit/kernel.h"
#include "cuda/launch/layout.h"

namespace coda {
namespace {

// The GPU whose recorded choices and candidates are asked.
constexpr int kMultiprocessors = 132;
constexpr const char* kGpu = "NVIDIA H200";

KernelReport written(const Problem& problem, const Schedule* schedule, const Arch& arch) {
  KernelReport report;
  if (problem.a.parts.empty()) {
    const std::vector<cuda::SegmentSpec> segments = cuda::specialise_elementwise(problem);
    report.name = cuda::joined_names(segments);
    report.text = cuda::emit_elementwise(segments);
    return report;
  }
  const cuda::KernelSpec spec = cuda::scheduled(problem, schedule, arch, kMultiprocessors, kGpu);
  report.name = cuda::kernel_name(spec);
  report.schedule = spec.schedule;
  report.shared_bytes = shared_bytes(spec.schedule, cuda::shape_of(spec));
  report.text = cuda::emit_kernel(spec);
  return report;
}

}  // namespace

KernelReport report_kernel(const Problem& problem, const Schedule* schedule) {
  REQUIRE(ValueError, problem.device.kind == DeviceKind::Cuda, problem.call, ": the tensors are on ",
          device_text(problem.device),
          ", expected a GPU, where kernels run: give them a device such as cuda:0; their pointers may be invented");
  const auto refusal = cuda::kernel_refusal(problem);
  REQUIRE(NotImplementedError, !refusal, problem.call, ": backend 'cuda' cannot run this: ", *refusal);
  const Arch& arch = *find_arch(9, 0);
  KernelReport report = written(problem, schedule, arch);
  cuda::Cubin cubin = cuda::compile(report.name, report.text, arch.name);
  report.compiler_log = std::move(cubin.log);
  report.cubin = std::move(cubin.image);
  return report;
}

}  // namespace coda
