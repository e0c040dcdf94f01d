// The backward of causal attention of grouped heads, in three passes. The first leaves ⟨d_out, out⟩ of each query and
// head. The others make the softmax's weights again from the log-sum-exp: one sums the gradients by a few queries of
// one head over the keys they see, the other those by a few keys and values over the queries that see them, head after
// head of their group. Both are one walk: a block has `kRows` own rows, its warps take steps of 32 rows of the other
// kind in turn, each keeps sums of its own, and they are added in the order of the warps.
#pragma once

#include "attention.cuh"

namespace coda {

struct AttentionBackwardParams {
  Matrix q;  // tokens × heads·kHead, as out, d_out and d_q
  Matrix k;  // tokens × heads/group·kHead, as v, d_k and d_v
  Matrix v;
  Matrix out;
  Matrix d_out;
  Matrix lse;    // tokens × heads f32, log Σ exp of the scaled scores
  Matrix means;  // the same, ⟨d_out, out⟩
  Matrix d_q;
  Matrix d_k;
  Matrix d_v;
  i32 tokens;
  i32 heads;
  i32 group;    // query heads that share keys and values
  float scale;  // of the scores
};

template <class Element, int kHead>
__device__ __forceinline__ void run_attention_means(const AttentionBackwardParams& p) {
  const i64 pair = static_cast<i64>(blockIdx.x) * kAttentionWarps + threadIdx.x / 32;
  const i64 row = pair / p.heads, head = pair % p.heads;
  if (row >= p.tokens) return;
  float sum = 0.f;
  for (int d = static_cast<int>(threadIdx.x % 32); d < kHead; d += 32)
    sum += Element::widen(*element<Element>(p.d_out, row, head * kHead + d)) *
           Element::widen(*element<Element>(p.out, row, head * kHead + d));
  sum = sum_of_warp(sum);
  if (threadIdx.x % 32 == 0) *element<F32>(p.means, row, head) = sum;
}

// The two matrices of a side of the scores: q and d_out of queries, k and v of keys. Scores are products of the first
// ones, gradients by the weights of the second ones.
struct Side {
  const Matrix& first;
  const Matrix& second;
  i64 row;
  i64 column;  // first of the head
};

struct OfQuery {
  float lse, mean;
};

// kSums: 1 for the pass over keys (by queries), 2 for that over queries (by keys and by values).
template <int kHead, int kRows, int kSums>
struct GradientShared {
  alignas(16) float own[2][kRows][kHead];
  alignas(16) float weights[kSums][kAttentionWarps][kStep][kRows];
  float sums[kSums][kRows][kHead];
};

// One warp's sums. A lane has columns 2·lane + 64·i and the next of them; in a step it has one row of the other side
// for the scores.
template <class Element, class Lies, int kHead, int kRows, int kSums>
struct GradientWarp {
  static constexpr int kPairs = (kHead + 63) / 64;
  using Shared = GradientShared<kHead, kRows, kSums>;

  Shared& shared;
  float scale;
  i32 warp, lane;
  float sums[kSums][kRows][kPairs][2] = {};

  __device__ __forceinline__ GradientWarp(Shared& memory, float scale_of_scores)
      : shared(memory),
        scale(scale_of_scores),
        warp(static_cast<i32>(threadIdx.x / 32)),
        lane(static_cast<i32>(threadIdx.x % 32)) {}

  // The block's own rows, to shared memory.
  __device__ __forceinline__ void keep(const Side& own, i32 rows) {
    for (int i = threadIdx.x; i < kRows * kHead; i += kAttentionThreads) {
      const int r = i / kHead, d = i % kHead;
      shared.own[0][r][d] = r < rows ? Element::widen(*element<Element>(own.first, own.row + r, own.column + d)) : 0.f;
      shared.own[1][r][d] = r < rows ? Element::widen(*element<Element>(own.second, own.row + r, own.column + d)) : 0.f;
    }
    __syncthreads();
  }

  // Whether row `j` of a step and own row `r` are a query and a key it sees. visible: how much further the first query
  // is than the first key, plus 1.
  __device__ __forceinline__ static bool sees(i32 j, i32 r, i32 visible) {
    return kSums == 1 ? j < visible + r : r < visible + j;
  }

  // Takes `count` rows of the other side, up to 32. query_of: lse and mean of the query, by the own row.
  template <class QueryOf>
  __device__ __forceinline__ void take(const Side& other, i32 count, i32 visible, QueryOf query_of) {
    float scores[kRows] = {}, d_weights[kRows] = {};
    const i64 row = other.row + min(lane, count - 1);
    multiply(0, other.first, row, other.column, scores);
    multiply(1, other.second, row, other.column, d_weights);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const OfQuery query = query_of(r);
      const float weight = exp2f((scores[r] * scale - query.lse) * kLog2E);
      shared.weights[0][warp][lane][r] = weight * (d_weights[r] - query.mean);
      if (kSums == 2) shared.weights[kSums - 1][warp][lane][r] = weight;
    }
    __syncwarp();
    add(other, count, visible);
    __syncwarp();
  }

  __device__ __forceinline__ void multiply(int which, const Matrix& with, i64 row, i64 column,
                                           float (&products)[kRows]) const {
#pragma unroll 2
    for (int d = 0; d < kHead; d += 8) {
      float entries[8];
      load_run<Element, Lies>(with, row, column + d, entries);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = 0; i < 8; ++i) products[r] += shared.own[which][r][d + i] * entries[i];
    }
  }

  // Adds the weighted rows. A row that is not seen is not touched: 0 · NaN is NaN.
  __device__ __forceinline__ void add(const Side& other, i32 count, i32 visible) {
#pragma unroll 2
    for (i32 j = 0; j < count; ++j) {
      float rows[kSums][kPairs][2] = {};
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const i32 col = 2 * lane + 64 * i;
        if (col >= kHead) continue;
        load_run<Element, Lies>(other.first, other.row + j, other.column + col, rows[0][i]);
        if (kSums == 2) load_run<Element, Lies>(other.second, other.row + j, other.column + col, rows[kSums - 1][i]);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (!sees(j, r, visible)) continue;
#pragma unroll
        for (int s = 0; s < kSums; ++s) {
          const float weight = shared.weights[s][warp][j][r];
#pragma unroll
          for (int i = 0; i < kPairs; ++i) {
            sums[s][r][i][0] += weight * rows[s][i][0];
            sums[s][r][i][1] += weight * rows[s][i][1];
          }
        }
      }
    }
  }

  // The sums of all warps, in shared memory.
  __device__ __forceinline__ void leave() {
    for (i32 turn = 0; turn < kAttentionWarps; ++turn) {
      if (turn == warp) add_to_shared(turn == 0);
      __syncthreads();
    }
  }

  __device__ __forceinline__ void add_to_shared(bool is_first) {
#pragma unroll
    for (int s = 0; s < kSums; ++s)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = 0; i < 2 * kPairs; ++i) {
          const i32 col = 2 * lane + 64 * (i / 2) + i % 2;
          if (col >= kHead) continue;
          float& to = shared.sums[s][r][col];
          to = (is_first ? 0.f : to) + sums[s][r][i / 2][i % 2];
        }
  }

  // The first `rows` rows of a sum, times a factor.
  __device__ __forceinline__ void write(int which, const Matrix& to, i64 row, i64 column, i32 rows,
                                        float factor) const {
    for (int i = threadIdx.x; i < rows * kHead; i += kAttentionThreads)
      *element<Element>(to, row + i / kHead, column + i % kHead) =
          Element::narrow(shared.sums[which][i / kHead][i % kHead] * factor);
  }
};

__device__ __forceinline__ OfQuery load_query(const AttentionBackwardParams& p, i64 row, i32 head) {
  return {*element<F32>(p.lse, row, head), *element<F32>(p.means, row, head)};
}

template <class Element, class Lies, int kHead, int kRows>
__device__ __forceinline__ void run_attention_by_queries(const AttentionBackwardParams& p) {
  __shared__ GradientShared<kHead, kRows, 1> shared;
  const QueryBlock block(p.tokens, p.heads, kRows);
  const i32 rows = min(kRows, p.tokens - block.row);
  const i64 column = static_cast<i64>(block.head) * kHead, kv_column = static_cast<i64>(block.head / p.group) * kHead;
  GradientWarp<Element, Lies, kHead, kRows, 1> warp(shared, p.scale);
  warp.keep({p.q, p.d_out, block.row, column}, rows);
  const i32 last = block.row + rows;  // behind the last key that is seen
  for (i32 key = warp.warp * kStep; key < last; key += kAttentionWarps * kStep)
    warp.take({p.k, p.v, key, kv_column}, min(kStep, last - key), block.row + 1 - key,
              [&](int r) { return load_query(p, block.row + min(r, rows - 1), block.head); });
  warp.leave();
  warp.write(0, p.d_q, block.row, column, rows, p.scale);
}

// Blocks of the first keys, which the most queries see, go first.
template <class Element, class Lies, int kHead, int kRows>
__device__ __forceinline__ void run_attention_by_keys(const AttentionBackwardParams& p) {
  __shared__ GradientShared<kHead, kRows, 2> shared;
  const i32 kv_heads = p.heads / p.group, index = static_cast<i32>(blockIdx.x);
  const i32 kv_head = index % kv_heads, key = index / kv_heads * kRows;
  const i32 rows = min(kRows, p.tokens - key);
  const i64 column = static_cast<i64>(kv_head) * kHead;
  GradientWarp<Element, Lies, kHead, kRows, 2> warp(shared, p.scale);
  warp.keep({p.k, p.v, key, column}, rows);
  const i32 steps = (p.tokens - key + kStep - 1) / kStep;  // of one query head
  for (i32 step = warp.warp; step < steps * p.group; step += kAttentionWarps) {
    const i32 head = kv_head * p.group + step / steps, query = key + step % steps * kStep;
    const i32 count = min(kStep, p.tokens - query);
    const OfQuery of_lane = load_query(p, query + min(warp.lane, count - 1), head);
    warp.take({p.q, p.d_out, query, static_cast<i64>(head) * kHead}, count, query + 1 - key,
              [&](int) { return of_lane; });
  }
  warp.leave();
  warp.write(0, p.d_k, key, column, rows, p.scale);
  warp.write(1, p.d_v, key, column, rows, 1.f);
}

}  // namespace coda
