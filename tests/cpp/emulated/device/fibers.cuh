// Whole blocks on the CPU, where threads meet at barriers of a warp or of the block: each is a fiber, and a fiber that
// waits lets the next one run. Blocks come one after the other.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#define __shared__ static thread_local  // tests run kernels side by side

namespace coda::fibers {

struct Index3 {
  unsigned x;
};
inline thread_local Index3 thread{0}, block{0};

constexpr std::size_t kStack = 1 << 18;

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done = false;
};

inline thread_local ucontext_t scheduler;
inline thread_local std::vector<Fiber> all;
inline thread_local std::function<void()> body;
inline thread_local float exchanged[1024];

struct Barrier {
  unsigned arrived = 0, round = 0;
};
inline thread_local Barrier of_block, of_warp[32];

inline void run_body() {
  body();
  all[thread.x].done = true;
}

inline void meet(Barrier& barrier, unsigned threads) {
  const unsigned round = barrier.round, self = thread.x;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.round;
  }
  while (barrier.round == round) swapcontext(&all[self].context, &scheduler);
}

inline void run_block(unsigned number, unsigned threads) {
  all = std::vector<Fiber>(threads);
  for (Fiber& fiber : all) {
    fiber.stack = std::make_unique_for_overwrite<char[]>(kStack);
    getcontext(&fiber.context);
    fiber.context.uc_stack = {fiber.stack.get(), 0, kStack};
    fiber.context.uc_link = &scheduler;
    makecontext(&fiber.context, run_body, 0);
  }
  block.x = number;
  for (bool left = true; left;) {
    left = false;
    for (unsigned i = 0; i < threads; ++i) {
      if (all[i].done) continue;
      left = true;
      thread.x = i;
      swapcontext(&scheduler, &all[i].context);
    }
  }
}

inline void run_blocks(long long count, unsigned threads, const std::function<void()>& kernel) {
  body = kernel;
  for (long long number = 0; number < count; ++number) run_block(static_cast<unsigned>(number), threads);
}

inline void meet_block() { meet(of_block, static_cast<unsigned>(all.size())); }

// The value of another thread of the warp.
inline float from_thread(float value, unsigned other) {
  Barrier& warp = of_warp[thread.x / 32];
  exchanged[thread.x] = value;
  meet(warp, 32);
  const float got = exchanged[other];
  meet(warp, 32);
  return got;
}

}  // namespace coda::fibers

inline float __shfl_xor_sync(unsigned, float value, int with) {
  return coda::fibers::from_thread(value, coda::fibers::thread.x ^ static_cast<unsigned>(with));
}

inline float __shfl_sync(unsigned, float value, int lane, int width = 32) {
  const unsigned segment = coda::fibers::thread.x / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  return coda::fibers::from_thread(value, segment + static_cast<unsigned>(lane % width));
}

inline void __syncwarp() { coda::fibers::meet(coda::fibers::of_warp[coda::fibers::thread.x / 32], 32); }
inline void __syncthreads() { coda::fibers::meet_block(); }

#define threadIdx coda::fibers::thread
#define blockIdx coda::fibers::block
