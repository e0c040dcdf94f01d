// run_elementwise on the CPU, for all blocks.
#pragma once

#include "fibers.cuh"

#define run_elementwise run_elementwise_of_a_thread
#define run_elementwise_segments run_elementwise_segments_of_a_thread
#include "elementwise_gpu.cuh"
#undef run_elementwise
#undef run_elementwise_segments

namespace coda {

template <class Program, int Span>
void run_elementwise(const typename Program::Arguments& a) {
  const i64 blocks =
      static_cast<i64>((a.rows + kElementwiseRows - 1) / kElementwiseRows) * ((a.cols + Span - 1) / Span);
  fibers::run_blocks(blocks, kElementwiseThreads, [&] { run_elementwise_of_a_thread<Program, Span>(a); });
}

template <class Config>
void run_elementwise_segments(const typename Config::Params& p) {
  i64 spans = 0;
  for (int s = 0; s < Config::kSegments; ++s) spans += p.spans[s];
  i32 rows = 0;
  Config::visit(p, 0, [&](auto, auto, const auto& arguments) { rows = arguments.rows; });
  fibers::run_blocks(static_cast<i64>((rows + kElementwiseRows - 1) / kElementwiseRows) * spans, kElementwiseThreads,
                     [&] { run_elementwise_segments_of_a_thread<Config>(p); });
}

}  // namespace coda
