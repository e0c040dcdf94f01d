#include "core/thread_count.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/check.h"
#include "core/options.h"

namespace coda {
namespace {

std::atomic<int> chosen{0};

// Cores of the process's affinity mask, which containers and taskset narrow; of the machine when it cannot be read.
int available_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) return std::max(1, CPU_COUNT(&mask));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

int thread_count() {
  if (const int count = chosen.load(std::memory_order_relaxed); count > 0) return count;
  static const int standard = options().threads > 0 ? options().threads : available_cores();
  return standard;
}

void set_thread_count(int count) {
  REQUIRE(ValueError, count >= 0, "set_num_threads: got ", count, ", expected 1 or more, or 0 for the default");
  chosen.store(count, std::memory_order_relaxed);
}

}  // namespace coda
