// run_gather on the CPU, for all blocks.
#pragma once

#include "fibers.cuh"

#define run_gather run_gather_of_a_thread
#include "gather_gpu.cuh"
#undef run_gather

namespace coda {

template <class Element>
void run_gather(const GatherParams& p) {
  fibers::run_blocks(p.rows, kGatherThreads, [&] { run_gather_of_a_thread<Element>(p); });
}

}  // namespace coda
