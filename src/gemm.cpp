// The table of contents: bind → check indices → choose a backend → plan (specialise → schedule → emit → compile) → run.
#include "coda/gemm.h"

#include <array>
#include <optional>
#include <string>

#include "core/check.h"
#include "core/device_memory.h"
#include "core/options.h"
#include "core/thread_count.h"
#include "cpu/fast/fast.h"
#include "cpu/reference.h"
#include "cuda/backend.h"
#include "cuda/launch/memory.h"
#include "problem/before_plan.h"
#include "problem/plan_cache.h"
#include "schedule/records.h"

namespace coda {
namespace {

// Plans of calls that keep none: a model's layers, a few batch sizes each.
constexpr std::size_t kKeptPlans = 256;

// One line a backend, in order of preference; the only place that sees all of them.
std::span<const Backend* const> backends() {
  static const std::array all{
      &cuda::cuda_backend(),
      &cpu::fast_backend(),
      &cpu::reference_backend(),
  };
  return all;
}

// Before main(), so that a tensor may be the first thing made on a GPU. Asks no GPU.
[[maybe_unused]] const bool kMemoryProvided = [] {
  provide_device_memory(DeviceKind::Cuda, cuda::gpu_memory());
  return true;
}();

// The named backend. Errors: NotImplementedError with its reason.
const Backend& choose_named(const Problem& problem, std::string_view name) {
  const Backend& backend = find_backend(name);
  const bool at_home = backend.device() == problem.device.kind;
  const auto reason =
      at_home ? backend.refuses(problem)
              : std::optional(concat("the tensors are on ", device_text(problem.device), ", where it does not run"));
  REQUIRE(NotImplementedError, !reason, problem.call, ": backend '", name, "' cannot run this: ", *reason);
  return backend;
}

// The named backend, else the first for the problem's device that can run it.
const Backend& choose(const Problem& problem, std::string_view name) {
  if (!name.empty()) return choose_named(problem, name);
  const std::string& preferred = options().backend;
  if (!preferred.empty() && find_backend(preferred).device() == problem.device.kind)
    return choose_named(problem, preferred);
  std::string reasons;
  for (const Backend* backend : backends()) {
    if (backend->device() != problem.device.kind) continue;
    const auto reason = backend->refuses(problem);
    if (!reason) return *backend;
    reasons += concat(reasons.empty() ? "" : "; ", "'", backend->name(), "': ", *reason);
  }
  INVARIANT(problem.device.kind != DeviceKind::Cpu, problem.call,
            ": every backend refuses, though 'reference' runs all that binds: ", reasons);
  throw NotImplementedError(
      concat(problem.call, ": no backend runs this on ", device_text(problem.device), ": ", reasons));
}

}  // namespace

const Backend& find_backend(std::string_view name) {
  std::string known;
  for (const Backend* backend : backends()) {
    if (backend->name() == name) return *backend;
    known += concat(known.empty() ? "'" : " or '", backend->name(), "'");
  }
  throw ValueError(concat("find_backend: backend '", name, "' is not in this build, expected ", known));
}

std::vector<std::string_view> backend_names(DeviceKind device) {
  std::vector<std::string_view> names;
  for (const Backend* backend : backends())
    if (backend->device() == device) names.push_back(backend->name());
  return names;
}

void gemm(const Factor& a, const Factor& b, const Program& program, const Operands& operands, std::string_view backend,
          const Execution& where) {
  const Segment segment{program, operands};
  gemm(a, b, {&segment, 1}, backend, where);
}

void gemm(const Factor& a, const Factor& b, std::span<const Segment> segments, std::string_view backend,
          const Execution& where) {
  run(coda::bind("gemm", a, b, segments), backend, where);
}

void elementwise(std::int64_t rows, std::int64_t cols, const Program& program, const Operands& operands,
                 std::string_view backend, const Execution& where) {
  run(bind_elementwise("elementwise", rows, cols, {program, operands}), backend, where);
}

void elementwise(std::int64_t rows, std::span<const std::int64_t> cols, std::span<const Segment> segments,
                 std::string_view backend, const Execution& where) {
  run(bind_elementwise("elementwise", rows, cols, segments), backend, where);
}

void run(const Problem& problem, std::string_view backend, const Execution& where) {
  static PlanCache cache(kKeptPlans);
  check_indices(problem);
  const auto make = [&] {
    if (const auto before = before_plan()) (*before)(problem, where.stream);
    return plan(problem, backend, {.stream = where.stream});
  };
  cache.get(problem, backend, records_kept() + before_plan_changes(), make)->run(problem, where);
}

std::unique_ptr<Plan> plan(const Problem& problem, std::string_view backend, const PlanOptions& how) {
  return choose(problem, backend).plan(problem, how);
}

void set_num_threads(int count) { set_thread_count(count); }

int num_threads() { return thread_count(); }

}  // namespace coda
