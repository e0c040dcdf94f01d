// Plans of programs without a product.
#include "cuda/emit/elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/check.h"
#include "core/integers.h"
#include "cuda/emit/distinct.h"
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
      : gpu_(gpu(problem.device.index)), specs_(specialise_elementwise(problem)), layout_(elementwise_layout(specs_)) {
    REQUIRE(NotImplementedError, layout_.size <= kMaxParams, problem.call, ": the kernel would take ", layout_.size,
            " bytes of parameters, expected at most ", kMaxParams, ": use fewer segments or operands");
    kernel_ = &load_kernel(
        gpu_, {.name = joined_names(specs_), .text = emit_elementwise(specs_), .threads = kElementwiseThreads},
        static_cast<Stream>(stream), problem.call);
  }

  void run(const Problem& problem, const Execution& where) const override {
    check_matches(problem);
    if (problem.m == 0 || problem.n == 0) return;
    const CurrentGpu current(gpu_);
    alignas(64) std::array<char, kMaxParams> params;
    const std::int64_t row_blocks = ceil_div(problem.m, std::int64_t{kElementwiseRows});
    const std::int64_t spans_of_run = choose_spans_of_run(problem, row_blocks);
    std::int64_t runs = 0;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const BoundSegment& segment = problem.segments[i];
      fill_arguments(params.data() + layout_.arguments[i], specs_[i], segment);
      const auto own = static_cast<std::int32_t>(ceil_div(spans_of(segment, specs_[i]), spans_of_run));
      std::memcpy(params.data() + layout_.runs + 4 * i, &own, sizeof own);
      runs += own;
    }
    const std::int64_t grid = row_blocks * runs;
    const LaunchConfig config{.grid_x = static_cast<unsigned>(grid),
                              .block_x = kElementwiseThreads,
                              .stream = static_cast<Stream>(where.stream)};
    launch_kernel(gpu_, *kernel_, config, params.data(), problem.call,
                  [&] { return concat(" for ", problem.m, " rows and ", problem.n, " columns"); });
  }

 private:
  static std::int64_t spans_of(const BoundSegment& segment, const SegmentSpec& spec) {
    return ceil_div(segment.cols, elementwise_span(spec.program));
  }

  // As long as they can be, so that what is computed once a run costs little, while there are blocks for every
  // multiprocessor several times.
  std::int64_t choose_spans_of_run(const Problem& problem, std::int64_t row_blocks) const {
    constexpr std::int64_t kMost = 8, kBlocksOfMultiprocessor = 16;
    std::int64_t spans = 0;
    for (std::size_t i = 0; i < specs_.size(); ++i) spans += spans_of(problem.segments[i], specs_[i]);
    return std::clamp(row_blocks * spans / (kBlocksOfMultiprocessor * gpu_.multiprocessors), std::int64_t{1}, kMost);
  }

  void check_matches(const Problem& problem) const {
    bool same = problem.device == Device{DeviceKind::Cuda, gpu_.index} && problem.a.parts.empty() &&
                problem.segments.size() == specs_.size();
    for (std::size_t i = 0; same && i < specs_.size(); ++i) same = matches(problem.segments[i], specs_[i]);
    REQUIRE(ValueError, same, problem.call,
            ": the problem differs from the one the plan was made for, expected the same program, "
            "device, dtypes and alignment: make a plan for this problem");
    for (std::size_t i = 0; i < specs_.size(); ++i)
      if (const auto refusal = place_refusal(problem.segments[i], specs_[i].split))
        throw NotImplementedError(concat(problem.call, ": ", *refusal));
  }

  static bool matches(const BoundSegment& segment, const SegmentSpec& spec) {
    bool same = segment.operands.size() == spec.access.size();
    for (std::size_t i = 0; same && i < segment.operands.size(); ++i) {
      const Operand& operand = spec.program.operands()[i];
      same = segment.operands[i].dtype() == *operand.dtype &&
             serves(access_of(operand, segment.operands[i]), spec.access[i]);
    }
    return same;
  }

  const Gpu& gpu_;
  std::vector<SegmentSpec> specs_;
  ElementwiseLayout layout_;
  const LoadedKernel* kernel_ = nullptr;
};

}  // namespace

std::unique_ptr<Plan> make_elementwise_plan(const Problem& problem, void* stream) {
  return std::make_unique<ElementwisePlan>(problem, stream);
}

}  // namespace coda::cuda
