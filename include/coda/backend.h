// Backend: what can run a Problem. Plan once, run many.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coda/problem.h"
#include "coda/schedule.h"

namespace coda {

/// Where and with what scratch memory a plan runs. The CPU backends need neither.
struct Execution {
  void* stream = nullptr;     ///< a CUstream (cudaStream_t); null: the device's default stream
  void* workspace = nullptr;  ///< device memory of at least Plan::workspace_bytes, aligned to 256 bytes (as cudaMalloc
                              ///< gives it), used until the run has ended
  std::size_t workspace_bytes = 0;
};

/// A problem made ready: blocking chosen, scratch sized, kernels compiled.
class Plan {
 public:
  virtual ~Plan() = default;

  /// Runs on the tensors of `problem`, which has the planned layout (shapes of the weights, dtypes, program); M, the
  /// data pointers and the strides may differ from those planned with. Safe to call from several threads.
  /// On a GPU the call returns once the work is queued on the stream; with a workspace, or when none is needed, it
  /// neither allocates, waits nor compiles, and may be captured in a graph. Without one it takes what it needs from the
  /// stream's memory pool. Errors: ValueError for a problem that does not have the planned layout, or too small a
  /// workspace; OutOfMemoryError, DeviceError.
  virtual void run(const Problem& problem, const Execution& where) const = 0;
  void run(const Problem& problem) const { run(problem, {}); }

  /// Scratch memory run() needs for this problem, in bytes: 0 where every operand is read as it lies.
  virtual std::size_t workspace_bytes(const Problem&) const { return 0; }

  /// The schedule it was made with; null for a backend without schedules.
  virtual const Schedule* schedule() const { return nullptr; }
};

/// How to make a plan.
struct PlanOptions {
  const Schedule* schedule = nullptr;  ///< null: the recorded choice, else the candidate expected to be fastest
  void* stream = nullptr;              ///< the stream that may be under capture, where nothing can be compiled
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;

  /// The kind of device whose tensors it works on.
  virtual DeviceKind device() const { return DeviceKind::Cpu; }

  /// Nothing when the backend can run the problem; otherwise the reason why not.
  virtual std::optional<std::string> refuses(const Problem& problem) const = 0;
  virtual std::unique_ptr<Plan> plan(const Problem& problem, const PlanOptions& how) const = 0;
  std::unique_ptr<Plan> plan(const Problem& problem) const { return plan(problem, {}); }

  /// Schedules worth timing for a problem it does not refuse, the one expected to be fastest first; none for a backend
  /// without schedules.
  virtual std::vector<Candidate> candidates(const Problem&) const { return {}; }
};

/// "cuda": one kernel for each problem on a Hopper GPU, compiled when it is first planned.
/// "reference": interprets the program in double and rounds only where it stores; the definition of every program.
/// "fast": blocked, vectorised and threaded; the default.
const Backend& find_backend(std::string_view name);

/// Names of the backends of this build that work on a kind of device, in order of preference.
std::vector<std::string_view> backend_names(DeviceKind device = DeviceKind::Cpu);

}  // namespace coda
