// run_elementwise on the CPU, for all blocks.
#pragma once

#include "fibers.cuh"

#define run_elementwise run_elementwise_of_a_thread
#include "elementwise_gpu.cuh"
#undef run_elementwise

namespace coda {

template <class Program, int Span>
void run_elementwise(const typename Program::Arguments& a) {
  const i64 blocks =
      static_cast<i64>((a.rows + kElementwiseRows - 1) / kElementwiseRows) * ((a.cols + Span - 1) / Span);
  fibers::run_blocks(blocks, kElementwiseThreads, [&] { run_elementwise_of_a_thread<Program, Span>(a); });
}

}  // namespace coda
