// tune: times the schedules worth trying for one product on the GPU and records the fastest.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coda/problem.h"
#include "coda/schedule.h"

namespace coda {

/// A schedule that was tried.
struct Timing {
  Schedule schedule{};
  std::string reason;       ///< why it was a candidate
  double milliseconds = 0;  ///< median of its rounds
  double ratio = 0;         ///< median over rounds of its time ÷ the fastest one's in the same round; 1 is the winner
  int rounds = 0;
};

struct TuneOptions {
  int rounds = 30;     ///< rounds of the finalists; all candidates have a sixth of them first
  bool record = true;  ///< keep the choice for later plans, on disk too
  void* stream = nullptr;
  /// Told what has been done, of what, out of how much: ("compile", 3, 12).
  std::function<void(std::string_view stage, int done, int total)> progress{};
};

/// Compiles the candidates in parallel, then times them interleaved, in rotating order, with L2 flushed before each
/// run, on copies of the outputs. Fastest first; of candidates within 0.3 % the earlier one wins. Errors:
/// NotImplementedError where no GPU backend runs the problem; OutOfMemoryError, DeviceError.
std::vector<Timing> tune(const Problem& problem, const TuneOptions& options = {});

/// While it lives, a product that gemm() runs on a GPU for the first time is tuned before, in every thread, unless a
/// choice is recorded for it: a training step or a request run inside tunes all of its products, those of blocks too.
/// Not while the stream is being captured. options.stream is not read: it is the call's.
class Tuning {
 public:
  explicit Tuning(TuneOptions options = {});
  ~Tuning();
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;

 private:
  std::shared_ptr<const void> before_;
};

}  // namespace coda
