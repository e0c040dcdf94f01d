// Backend: what can run a Problem. Plan once, run many.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coda/problem.h"

namespace coda {

/// A problem made ready: blocking chosen, scratch sized, kernels compiled.
class Plan {
 public:
  virtual ~Plan() = default;

  /// Runs on the tensors of `problem`, which has the planned layout (shapes of the weights, dtypes, program); M, the
  /// data pointers and the strides may differ from those planned with. Safe to call from several threads.
  virtual void run(const Problem& problem) const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;

  /// Nothing when the backend can run the problem; otherwise the reason why not.
  virtual std::optional<std::string> refuses(const Problem& problem) const = 0;
  virtual std::unique_ptr<Plan> plan(const Problem& problem) const = 0;
};

/// "reference": interprets the program in double and rounds only where it stores; the definition of every program.
/// "fast": blocked, vectorised and threaded; the default.
const Backend& find_backend(std::string_view name);

/// Names of the backends in this build, in order of preference.
std::vector<std::string_view> backend_names();

}  // namespace coda
