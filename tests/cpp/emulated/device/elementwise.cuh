// run_elementwise on the CPU: blocks and warps one after the other, every lane of a quad a thread.
#pragma once

#include <thread>
#include <vector>

#define run_elementwise run_elementwise_of_a_block
struct Index3 {
  unsigned x;
};
inline thread_local Index3 blockIdx{0}, threadIdx{0};
#include "elementwise_gpu.cuh"
#undef run_elementwise

namespace coda {

template <class Program, int Span>
void run_elementwise(const typename Program::Arguments& a) {
  const i32 blocks = (a.rows + kElementwiseRows - 1) / kElementwiseRows * ((a.cols + Span - 1) / Span);
  Quad shared;
  std::vector<std::jthread> lanes;
  for (u32 number = 0; number < 4; ++number)
    lanes.emplace_back([&, number] {
      quad = &shared;
      for (i32 block = 0; block < blocks; ++block)
        for (u32 first = 0; first < kElementwiseThreads; first += 4) {
          blockIdx.x = static_cast<unsigned>(block);
          threadIdx.x = first + number;
          lane = threadIdx.x % 32;
          run_elementwise_of_a_block<Program, Span>(a);
        }
    });
}

}  // namespace coda
