// run_attention on the CPU, for all blocks.
#pragma once

#include "fibers.cuh"

#define run_attention run_attention_of_a_thread
#include "attention_gpu.cuh"
#undef run_attention

namespace coda {

template <class Element, class Lies, int kHead, int kRows>
void run_attention(const AttentionParams& p) {
  const i64 blocks = static_cast<i64>((p.tokens + kRows - 1) / kRows) * p.heads;
  fibers::run_blocks(blocks, kAttentionThreads, [&] { run_attention_of_a_thread<Element, Lies, kHead, kRows>(p); });
}

}  // namespace coda
