// The table of contents: bind → check indices → choose a backend → plan → run.
#include "coda/gemm.h"

#include <array>
#include <string>

#include "core/check.h"
#include "core/options.h"
#include "core/thread_count.h"
#include "cpu/fast/fast.h"
#include "cpu/reference.h"

namespace coda {
namespace {

// One line a backend, in order of preference; the only place that sees all of them.
std::span<const Backend* const> backends() {
  static const std::array all{
      &cpu::fast_backend(),
      &cpu::reference_backend(),
  };
  return all;
}

// The named backend, else the first that can run the problem. Errors: NotImplementedError with the named one's reason.
const Backend& choose(const Problem& problem, std::string_view name) {
  if (name.empty()) name = options().backend;
  if (!name.empty()) {
    const Backend& backend = find_backend(name);
    const auto reason = backend.refuses(problem);
    REQUIRE(NotImplementedError, !reason, problem.call, ": backend '", name, "' cannot run this: ", *reason);
    return backend;
  }
  std::string reasons;
  for (const Backend* backend : backends()) {
    const auto reason = backend->refuses(problem);
    if (!reason) return *backend;
    reasons += concat(reasons.empty() ? "" : "; ", "'", backend->name(), "': ", *reason);
  }
  INVARIANT(false, problem.call, ": every backend refuses, though 'reference' runs all that binds: ", reasons);
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

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const Backend* backend : backends()) names.push_back(backend->name());
  return names;
}

void gemm(const Factor& a, const Factor& b, const Program& program, const Operands& operands,
          std::string_view backend) {
  const Segment segment{program, operands};
  gemm(a, b, {&segment, 1}, backend);
}

void gemm(const Factor& a, const Factor& b, std::span<const Segment> segments, std::string_view backend) {
  run(bind("gemm", a, b, segments), backend);
}

void elementwise(std::int64_t rows, std::int64_t cols, const Program& program, const Operands& operands,
                 std::string_view backend) {
  run(bind_elementwise("elementwise", rows, cols, {program, operands}), backend);
}

void run(const Problem& problem, std::string_view backend) {
  check_indices(problem);
  choose(problem, backend).plan(problem)->run(problem);
}

void set_num_threads(int count) { set_thread_count(count); }

int num_threads() { return thread_count(); }

}  // namespace coda
