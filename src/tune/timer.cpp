#include "tune/timer.h"

#include <algorithm>

#include "core/check.h"

namespace coda {

using cuda::check;
using cuda::driver;

// What is written before each run to push everything else out of L2, and the events round the run.
struct PairedTimer::Memory {
  std::size_t flush_bytes = 0;
  cuda::DevicePointer flush = 0;
  cuda::DevicePointer workspace = 0;
  std::size_t workspace_bytes = 0;
  cuda::Event start = nullptr, stop = nullptr;
};

PairedTimer::PairedTimer(const cuda::Gpu& gpu, void* stream)
    : gpu_(gpu), stream_(static_cast<cuda::Stream>(stream)), memory_(std::make_unique<Memory>()) {
  const cuda::CurrentGpu current(gpu_);
  memory_->flush_bytes = 2 * std::max<std::size_t>(gpu_.l2_bytes, std::size_t{64} << 20);
  check(driver().alloc(&memory_->flush, memory_->flush_bytes), "tune",
        concat("allocate ", memory_->flush_bytes, " bytes to flush L2 with"));
  check(driver().event_create(&memory_->start, 0), "tune", "make an event");
  check(driver().event_create(&memory_->stop, 0), "tune", "make an event");
}

PairedTimer::~PairedTimer() {
  const cuda::CurrentGpu current(gpu_);
  driver().stream_synchronize(stream_);
  driver().free(memory_->flush);
  if (memory_->workspace != 0) driver().free(memory_->workspace);
  if (memory_->start != nullptr) driver().event_destroy(memory_->start);
  if (memory_->stop != nullptr) driver().event_destroy(memory_->stop);
}

std::vector<std::vector<double>> PairedTimer::time(const std::vector<const Plan*>& plans, const Problem& problem,
                                                   int rounds, const std::function<void(int)>& after) {
  const cuda::CurrentGpu current(gpu_);
  for (const Plan* plan : plans) {
    const std::size_t bytes = plan->workspace_bytes(problem);
    if (bytes <= memory_->workspace_bytes) continue;
    if (memory_->workspace != 0) check(driver().free(memory_->workspace), "tune", "free its workspace");
    memory_->workspace = 0;
    check(driver().alloc(&memory_->workspace, bytes), "tune", concat("allocate ", bytes, " bytes of workspace"));
    memory_->workspace_bytes = bytes;
  }
  std::vector<std::vector<double>> times(plans.size(), std::vector<double>(static_cast<std::size_t>(rounds)));
  for (const Plan* plan : plans) time_one(*plan, problem);  // warm: the first launch of a kernel loads it
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const std::size_t turn = (i + static_cast<std::size_t>(round)) % plans.size();
      times[turn][static_cast<std::size_t>(round)] = time_one(*plans[turn], problem);
    }
    after(round + 1);
  }
  return times;
}

double PairedTimer::time_one(const Plan& plan, const Problem& problem) {
  const Execution where{.stream = stream_,
                        .workspace = reinterpret_cast<void*>(memory_->workspace),
                        .workspace_bytes = memory_->workspace_bytes};
  check(driver().fill_async(memory_->flush, 0, memory_->flush_bytes / 4, stream_), "tune", "flush L2");
  check(driver().event_record(memory_->start, stream_), "tune", "record an event");
  plan.run(problem, where);
  check(driver().event_record(memory_->stop, stream_), "tune", "record an event");
  check(driver().event_synchronize(memory_->stop), "tune", "wait for a timed kernel");
  float milliseconds = 0;
  check(driver().event_elapsed(&milliseconds, memory_->start, memory_->stop), "tune", "read a time");
  return milliseconds;
}

double median(std::vector<double> values) {
  INVARIANT(!values.empty(), "median of nothing");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace coda
