// The passes of attention's backward on the CPU, for all blocks.
#pragma once

#include "fibers.cuh"

#define run_attention_means run_attention_means_of_a_thread
#define run_attention_by_queries run_attention_by_queries_of_a_thread
#define run_attention_by_keys run_attention_by_keys_of_a_thread
#include "attention_backward_gpu.cuh"
#undef run_attention_means
#undef run_attention_by_queries
#undef run_attention_by_keys

namespace coda {

inline i64 row_blocks(const AttentionBackwardParams& p, int rows) { return (p.tokens + rows - 1) / rows; }

template <class Element, int kHead>
void run_attention_means(const AttentionBackwardParams& p) {
  const i64 pairs = static_cast<i64>(p.tokens) * p.heads;
  fibers::run_blocks((pairs + kAttentionWarps - 1) / kAttentionWarps, kAttentionThreads,
                     [&] { run_attention_means_of_a_thread<Element, kHead>(p); });
}

template <class Element, class Lies, int kHead, int kRows>
void run_attention_by_queries(const AttentionBackwardParams& p) {
  fibers::run_blocks(row_blocks(p, kRows) * p.heads, kAttentionThreads,
                     [&] { run_attention_by_queries_of_a_thread<Element, Lies, kHead, kRows>(p); });
}

template <class Element, class Lies, int kHead, int kRows>
void run_attention_by_keys(const AttentionBackwardParams& p) {
  fibers::run_blocks(row_blocks(p, kRows) * (p.heads / p.group), kAttentionThreads,
                     [&] { run_attention_by_keys_of_a_thread<Element, Lies, kHead, kRows>(p); });
}

}  // namespace coda
