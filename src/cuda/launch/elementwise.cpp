// Plans of programs without a product.
#include <array>

#include "core/check.h"
#include "cuda/emit/kernel.h"
#include "cuda/launch/arguments.h"
#include "cuda/launch/gpu.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/plan.h"

namespace coda::cuda {
namespace {

constexpr std::size_t kMaxParams = 4096;  // bytes a kernel's parameters may have

class ElementwisePlan final : public Plan {
 public:
  ElementwisePlan(const Problem& problem, void* stream)
      : gpu_(gpu(problem.device.index)), spec_(specialise_elementwise(problem)) {
    REQUIRE(NotImplementedError, arguments_bytes(spec_) <= kMaxParams, problem.call, ": the kernel would take ",
            arguments_bytes(spec_), " bytes of parameters, expected at most ", kMaxParams, ": use fewer operands");
    kernel_ = &load_kernel(
        gpu_, {.name = spec_.program.name(), .text = emit_elementwise(spec_), .threads = kElementwiseThreads},
        static_cast<Stream>(stream), problem.call);
  }

  void run(const Problem& problem, const Execution& where) const override {
    const BoundSegment& segment = problem.segments[0];
    check_matches(problem);
    if (segment.rows == 0 || segment.cols == 0) return;
    const CurrentGpu current(gpu_);
    alignas(64) std::array<char, kMaxParams> params;
    fill_arguments(params.data(), spec_, segment);
    const auto blocks = [](std::int64_t extent, std::int64_t of) { return (extent + of - 1) / of; };
    const std::int64_t grid =
        blocks(segment.rows, kElementwiseRows) * blocks(segment.cols, elementwise_span(spec_.program));
    const LaunchConfig config{.grid_x = static_cast<unsigned>(grid),
                              .block_x = kElementwiseThreads,
                              .stream = static_cast<Stream>(where.stream)};
    launch_kernel(gpu_, *kernel_, config, params.data(), problem.call,
                  [&] { return concat(" for ", segment.rows, " rows and ", segment.cols, " columns"); });
  }

 private:
  void check_matches(const Problem& problem) const {
    const BoundSegment& segment = problem.segments[0];
    bool same = problem.device == Device{DeviceKind::Cuda, gpu_.index} && problem.a.parts.empty() &&
                segment.operands.size() == spec_.access.size();
    for (std::size_t i = 0; same && i < segment.operands.size(); ++i) {
      const Operand& operand = spec_.program.operands()[i];
      same = segment.operands[i].dtype() == *operand.dtype &&
             serves(access_of(operand, segment.operands[i]), spec_.access[i]);
    }
    REQUIRE(ValueError, same, problem.call,
            ": the problem differs from the one the plan was made for, expected the same program, "
            "device, dtypes and alignment: make a plan for this problem");
    if (const auto refusal = place_refusal(segment, spec_.split))
      throw NotImplementedError(concat(problem.call, ": ", *refusal));
  }

  const Gpu& gpu_;
  SegmentSpec spec_;
  const LoadedKernel* kernel_ = nullptr;
};

}  // namespace

std::unique_ptr<Plan> make_elementwise_plan(const Problem& problem, void* stream) {
  return std::make_unique<ElementwisePlan>(problem, stream);
}

}  // namespace coda::cuda
