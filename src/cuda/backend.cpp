#include "cuda/backend.h"

#include "core/check.h"
#include "cuda/emit/needs.h"
#include "cuda/launch/gpu.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/plan.h"

namespace coda::cuda {
namespace {

std::optional<std::string> dtype_refusal(const Problem& problem) {
  const bool has_product = !problem.a.parts.empty();
  const DType dtype = has_product ? problem.a.parts[0].dtype() : DType::BF16;
  if (dtype == DType::F32)
    return "A and B are f32, and Hopper's tensor cores multiply f32 only after rounding it to 11 bits (tf32); convert "
           "them to bf16 or f16, or run on the CPU";
  if (dtype != DType::BF16 && dtype != DType::F16)
    return concat("A and B are ", name_of(dtype), ", expected bf16 or f16");
  for (const BoundSegment& segment : problem.segments)
    for (std::size_t i = 0; i < segment.operands.size(); ++i)
      if (segment.operands[i].dtype() == DType::F64)
        return concat("operand '", segment.program.operands()[i].name, "' is f64, expected f32, bf16 or f16");
  return {};
}

class CudaBackend final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  DeviceKind device() const override { return DeviceKind::Cuda; }

  std::optional<std::string> refuses(const Problem& problem) const override {
    if (const auto problem_with_driver = driver_problem()) return problem_with_driver;
    if (auto refusal = arch_refusal(gpu(problem.device.index))) return refusal;
    return kernel_refusal(problem);
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const PlanOptions& how) const override {
    const Gpu& device = gpu(problem.device.index);
    if (problem.a.parts.empty()) return make_elementwise_plan(problem, how.stream);
    return make_plan(problem, scheduled(problem, how.schedule, *device.arch, device.multiprocessors, device.name),
                     how.stream);
  }

  std::vector<Candidate> candidates(const Problem& problem) const override {
    const Gpu& device = gpu(problem.device.index);
    if (problem.a.parts.empty()) return {};
    return required_candidates(problem, *device.arch, device.multiprocessors);
  }
};

}  // namespace

std::optional<std::string> kernel_refusal(const Problem& problem) {
  if (auto refusal = dtype_refusal(problem)) return refusal;
  for (const BoundSegment& segment : problem.segments) {
    if (auto refusal = emit_refusal(segment.program)) return refusal;
    if (auto refusal = place_refusal(segment, split_inputs(segment.program))) return refusal;
  }
  return extent_refusal(problem);
}

std::vector<Candidate> required_candidates(const Problem& problem, const Arch& arch, int multiprocessors) {
  const GemmShape shape = gemm_shape(problem, specialise(problem));
  std::vector<Candidate> list = candidates(shape, arch, multiprocessors);
  REQUIRE(NotImplementedError, !list.empty(), problem.call, ": program '", problem.segments[0].program.name(),
          "' fits no schedule: ", no_schedule_reason(shape, arch));
  return list;
}

RecordKey record_key(const Problem& problem, const KernelSpec& spec, std::string_view gpu_name) {
  return {std::string(gpu_name), identity_text(spec), m_bucket(problem.m), problem.n, problem.k};
}

KernelSpec scheduled(const Problem& problem, const Schedule* schedule, const Arch& arch, int multiprocessors,
                     std::string_view gpu_name) {
  KernelSpec spec = specialise(problem);
  const GemmShape shape = gemm_shape(problem, spec);
  if (schedule != nullptr) {
    const std::string refusal = schedule_refusal(*schedule, shape, arch);
    REQUIRE(NotImplementedError, refusal.empty(), problem.call, ": schedule '", to_text(*schedule),
            "' does not fit: ", refusal, ": take one of the candidates");
    spec.schedule = *schedule;
    return spec;
  }
  const auto recorded = find_record(record_key(problem, spec, gpu_name));
  if (recorded && schedule_refusal(*recorded, shape, arch).empty()) {
    spec.schedule = *recorded;
    return spec;
  }
  spec.schedule = required_candidates(problem, arch, multiprocessors)[0].schedule;
  return spec;
}

const Backend& cuda_backend() {
  static const CudaBackend backend;
  return backend;
}

}  // namespace coda::cuda
