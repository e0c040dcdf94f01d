#include "cpu/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/thread_count.h"

namespace coda::cpu {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(40);
// Indices are handed out in chunks of about a sixteenth of a worker's share, so that late workers still find some.
constexpr std::int64_t kChunksPerWorker = 16;

thread_local bool inside_parallel = false;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

struct Job {
  IndexCall body;
  std::int64_t count = 0;
  std::int64_t chunk = 1;
  int width = 1;   ///< workers it may have, the caller included
  int joined = 1;  ///< workers it has had; guarded by the pool's mutex
  std::atomic<std::int64_t> next{0};
  std::atomic<int> running{0};  ///< helpers inside work()
  std::mutex error_mutex;
  std::exception_ptr error;

  bool has_work() const { return next.load(std::memory_order_relaxed) < count; }

  void work(int worker) {
    inside_parallel = true;
    try {
      for (;;) {
        const std::int64_t first = next.fetch_add(chunk, std::memory_order_relaxed);
        if (first >= count) break;
        for (std::int64_t i = first; i < std::min(first + chunk, count); ++i) body.call(body.context, worker, i);
      }
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
    inside_parallel = false;
  }
};

class Pool {
 public:
  void run(Job& job) {
    {
      const std::lock_guard lock(mutex_);
      while (static_cast<int>(helpers_) < job.width - 1) {
        std::thread([this] { serve(); }).detach();
        ++helpers_;
      }
      jobs_.push_back(&job);
      posted_.fetch_add(1, std::memory_order_release);
      if (sleepers_ > 0) wake_.notify_all();
    }
    job.work(0);
    {
      const std::lock_guard lock(mutex_);
      std::erase(jobs_, &job);
    }
    for (int spins = 0; job.running.load(std::memory_order_acquire) > 0; ++spins) {
      if (spins < 4096) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  void serve() {
    std::uint64_t seen = 0;
    for (;;) {
      wait_for_post(seen);
      seen = posted_.load(std::memory_order_acquire);
      int worker = 0;
      while (Job* job = join_job(worker)) {
        job->work(worker);
        job->running.fetch_sub(1, std::memory_order_release);
      }
    }
  }

  // Spins for a moment, then sleeps, until something was posted after `seen`.
  void wait_for_post(std::uint64_t seen) {
    const auto start = std::chrono::steady_clock::now();
    while (posted_.load(std::memory_order_acquire) == seen) {
      for (int i = 0; i < 32; ++i) pause();
      if (std::chrono::steady_clock::now() - start < kSpinTime) continue;
      std::unique_lock lock(mutex_);
      ++sleepers_;
      wake_.wait(lock, [&] { return posted_.load(std::memory_order_acquire) != seen; });
      --sleepers_;
      return;
    }
  }

  Job* join_job(int& worker) {
    const std::lock_guard lock(mutex_);
    for (Job* job : jobs_) {
      if (job->joined >= job->width || !job->has_work()) continue;
      worker = job->joined++;
      job->running.fetch_add(1, std::memory_order_relaxed);
      return job;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job*> jobs_;
  std::size_t helpers_ = 0;
  int sleepers_ = 0;
  std::atomic<std::uint64_t> posted_{0};
};

std::atomic<Pool*> current_pool{nullptr};

// The helpers of the parent do not exist in a forked child: it starts a pool of its own. The old one is left, since its
// mutex may be held for ever. The pool of a living process is never destroyed, as its helpers may outlast static
// destructors.
Pool& pool() {
  static const bool watched = pthread_atfork(nullptr, nullptr, [] {
                                current_pool.store(nullptr, std::memory_order_relaxed);
                                inside_parallel = false;
                              }) == 0;
  static_cast<void>(watched);
  Pool* found = current_pool.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto made = std::make_unique<Pool>();
  if (current_pool.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *found;
}

}  // namespace

int parallel_width() { return inside_parallel ? 1 : std::max(1, thread_count()); }

void parallel_for(std::int64_t count, IndexCall body) {
  const int width = static_cast<int>(std::min<std::int64_t>(parallel_width(), count));
  if (width <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body.call(body.context, 0, i);
    return;
  }
  Job job;
  job.body = body;
  job.count = count;
  job.chunk = std::max<std::int64_t>(1, count / (width * kChunksPerWorker));
  job.width = width;
  pool().run(job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace coda::cpu
