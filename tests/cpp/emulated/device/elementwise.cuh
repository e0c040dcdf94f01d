// run_elementwise on the CPU, for all blocks.
#pragma once

#include "fibers.cuh"

#define run_elementwise run_elementwise_of_a_thread
#include "elementwise_gpu.cuh"
#undef run_elementwise

namespace coda {

// In runs of three spans, whatever the launch says: sizes small enough for a CPU would never have more than one.
template <class Config>
void run_elementwise(const typename Config::Params& given) {
  typename Config::Params p = given;
  i64 runs = 0;
  for (i32& of_segment : p.runs) runs += of_segment = (of_segment + 2) / 3;
  i32 rows = 0;
  Config::visit(p, 0, [&](auto, auto, const auto& arguments) { rows = arguments.rows; });
  fibers::run_blocks(static_cast<i64>((rows + kElementwiseRows - 1) / kElementwiseRows) * runs, kElementwiseThreads,
                     [&] { run_elementwise_of_a_thread<Config>(p); });
}

}  // namespace coda
