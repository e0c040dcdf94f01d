// Times plans against each other on one GPU: interleaved, in rotating order, with L2 flushed before each run, because a
// card under load changes its clocks from one second to the next and only neighbours in time compare.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "coda/backend.h"
#include "cuda/launch/gpu.h"

namespace coda {

class PairedTimer {
 public:
  /// Errors: OutOfMemoryError, DeviceError.
  PairedTimer(const cuda::Gpu& gpu, void* stream);
  ~PairedTimer();
  PairedTimer(const PairedTimer&) = delete;
  PairedTimer& operator=(const PairedTimer&) = delete;

  /// Milliseconds of each plan in each round: result[plan][round]. `after` is told each finished round.
  std::vector<std::vector<double>> time(const std::vector<const Plan*>& plans, const Problem& problem, int rounds,
                                        const std::function<void(int)>& after);

 private:
  struct Memory;
  double time_one(const Plan& plan, const Problem& problem);

  const cuda::Gpu& gpu_;
  cuda::Stream stream_;
  std::unique_ptr<Memory> memory_;
};

/// Median of some numbers; they are reordered.
double median(std::vector<double> values);

}  // namespace coda
