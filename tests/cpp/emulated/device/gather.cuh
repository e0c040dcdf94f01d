// run_gather and run_add_rows on the CPU, for all blocks.
#pragma once

#include "fibers.cuh"

#define run_gather run_gather_of_a_thread
#define run_add_rows run_add_rows_of_a_thread
#include "gather_gpu.cuh"
#undef run_gather
#undef run_add_rows

namespace coda {

template <class Element>
void run_gather(const GatherParams& p) {
  fibers::run_blocks(p.rows, kGatherThreads, [&] { run_gather_of_a_thread<Element>(p); });
}

template <class From, class Into>
void run_add_rows(const AddRowsParams& p) {
  const i64 blocks = static_cast<i64>(p.groups) * ((p.cols + kGatherThreads - 1) / kGatherThreads);
  fibers::run_blocks(blocks, kGatherThreads, [&] { run_add_rows_of_a_thread<From, Into>(p); });
}

}  // namespace coda
