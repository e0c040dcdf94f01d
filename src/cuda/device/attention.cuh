// Causal attention of grouped heads, softmax(q·kᵀ·scale)·v with an online softmax in fp32. A block takes a few queries
// of one head; its warps take steps of 32 keys in turn, each keeps a softmax of its own, and they are joined at the
// end. In a step a lane has one key for the scores, and a few columns of the head for the values. Which warp takes
// which keys depends on their numbers alone, so a query's result depends on no other query.
#pragma once

#include "reduce.cuh"

namespace coda {

struct AttentionParams {
  Matrix q;  // tokens × heads·kHead
  Matrix k;  // keys × heads/group·kHead
  Matrix v;
  Matrix out;
  Matrix lse;  // tokens × heads f32, log Σ exp of the scaled scores; without data: not wanted
  i32 tokens;
  i32 keys;
  i32 heads;
  i32 group;     // query heads that share keys and values
  float factor;  // of the scores: scale · log2 e
};

constexpr int kAttentionWarps = 4;
constexpr int kAttentionThreads = 32 * kAttentionWarps;
constexpr int kStep = 32;  // keys a warp takes at a time: one a lane

// How rows of k and v lie: in whole 16-byte pieces, or anyhow.
struct Pieces {};
struct Strided {};

template <class Element, int Count>
struct alignas(Count * sizeof(typename Element::Storage) < 16 ? Count * sizeof(typename Element::Storage) : 16) Run {
  typename Element::Storage entries[Count];
};

// Neighbouring entries of a row, from column `col` on.
template <class Element, class Lies, int Count>
__device__ __forceinline__ void load_run(const Matrix& from, i64 row, i64 col, float (&values)[Count]) {
  const auto* at = element<Element>(from, row, col);
  if constexpr (kSame<Lies, Pieces>) {
    const auto run = *reinterpret_cast<const Run<Element, Count>*>(at);
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = Element::widen(run.entries[i]);
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = Element::widen(at[i * from.col_stride]);
  }
}

__device__ __forceinline__ float largest_of_warp(float value) {
#pragma unroll
  for (int with = 16; with > 0; with /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, with));
  return value;
}

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
  for (int with = 16; with > 0; with /= 2) value += __shfl_xor_sync(0xffffffffu, value, with);
  return value;
}

// What exponents are taken from; no key seen yet leaves −∞, from which nothing can be.
__device__ __forceinline__ float base_of(float maximum) { return maximum == -infinity() ? 0.f : maximum; }

template <int kHead, int kRows>
struct AttentionShared {
  alignas(16) float q[kRows][kHead];
  alignas(16) float weights[kAttentionWarps][kStep][kRows];
  float out[kAttentionWarps][kRows][kHead];
  float maximum[kAttentionWarps][kRows];
  float sum[kAttentionWarps][kRows];
};

// One warp's softmax over the keys it has taken. A lane has columns 2·lane + 64·i and the next of the output, and its
// own part of the sums.
template <class Element, class Lies, int kHead, int kRows>
struct AttentionWarp {
  static constexpr int kPairs = (kHead + 63) / 64;
  using Shared = AttentionShared<kHead, kRows>;

  const AttentionParams& p;
  Shared& shared;
  i32 warp, lane;
  i64 column;  // first of the key head
  float maximum[kRows], sum[kRows], out[kRows][kPairs][2];

  __device__ __forceinline__ AttentionWarp(const AttentionParams& params, Shared& memory, i32 head)
      : p(params),
        shared(memory),
        warp(static_cast<i32>(threadIdx.x / 32)),
        lane(static_cast<i32>(threadIdx.x % 32)),
        column(static_cast<i64>(head / params.group) * kHead) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      maximum[r] = -infinity();
      sum[r] = 0.f;
#pragma unroll
      for (int i = 0; i < kPairs; ++i) out[r][i][0] = out[r][i][1] = 0.f;
    }
  }

  // Takes keys first … first + 31, of which row r sees those below visible + r.
  __device__ __forceinline__ void take(i32 first, i32 visible) {
    float scores[kRows] = {};
    multiply(min(first + lane, p.keys - 1), scores);
    weigh(scores, visible);
    __syncwarp();
    const i32 count = min(kStep, p.keys - first);
    if (visible >= count)
      add<true>(first, count, visible);
    else
      add<false>(first, count, visible);
    __syncwarp();
  }

  __device__ __forceinline__ void multiply(i64 key, float (&scores)[kRows]) const {
#pragma unroll 2
    for (int d = 0; d < kHead; d += 8) {
      float entries[8];
      load_run<Element, Lies>(p.k, key, column + d, entries);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = 0; i < 8; ++i) scores[r] += shared.q[r][d + i] * entries[i];
    }
  }

  // The softmax's weights of the lane's key, to shared memory; what was summed before is scaled to the new maximum.
  __device__ __forceinline__ void weigh(const float (&scores)[kRows], i32 visible) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float score = lane < visible + r ? scores[r] * p.factor : -infinity();
      const float next = fmaxf(maximum[r], largest_of_warp(score));
      const float scale = exp2f(maximum[r] - base_of(next));
      const float weight = exp2f(score - base_of(next));
      maximum[r] = next;
      sum[r] = sum[r] * scale + weight;
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        out[r][i][0] *= scale;
        out[r][i][1] *= scale;
      }
      shared.weights[warp][lane][r] = weight;
    }
  }

  // Adds the weighted values. A value a row does not see is not touched by it: 0 · NaN is NaN.
  template <bool kAllVisible>
  __device__ __forceinline__ void add(i32 first, i32 count, i32 visible) {
#pragma unroll 4
    for (i32 j = 0; j < count; ++j) {
      float values[kPairs][2] = {};
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
        if (2 * lane + 64 * i < kHead) load_run<Element, Lies>(p.v, first + j, column + 2 * lane + 64 * i, values[i]);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (!kAllVisible && j >= visible + r) continue;
        const float weight = shared.weights[warp][j][r];
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          out[r][i][0] += weight * values[i][0];
          out[r][i][1] += weight * values[i][1];
        }
      }
    }
  }

  __device__ __forceinline__ void leave() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float total = sum_of_warp(sum[r]);
      if (lane == 0) {
        shared.maximum[warp][r] = maximum[r];
        shared.sum[warp][r] = total;
      }
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const i32 col = 2 * lane + 64 * i;
        if (col >= kHead) continue;
        shared.out[warp][r][col] = out[r][i][0];
        shared.out[warp][r][col + 1] = out[r][i][1];
      }
    }
  }
};

// The warps' softmaxes of row `r`, scaled to their common maximum.
template <int kHead, int kRows>
struct Joined {
  float maximum = -infinity(), sum = 0.f, scales[kAttentionWarps];

  __device__ __forceinline__ Joined(const AttentionShared<kHead, kRows>& shared, int r) {
#pragma unroll
    for (int w = 0; w < kAttentionWarps; ++w) maximum = fmaxf(maximum, shared.maximum[w][r]);
#pragma unroll
    for (int w = 0; w < kAttentionWarps; ++w) {
      scales[w] = exp2f(shared.maximum[w][r] - base_of(maximum));
      sum += scales[w] * shared.sum[w][r];
    }
  }

  __device__ __forceinline__ float entry(const AttentionShared<kHead, kRows>& shared, int r, int col) const {
    float value = 0.f;
#pragma unroll
    for (int w = 0; w < kAttentionWarps; ++w) value += scales[w] * shared.out[w][r][col];
    return value / sum;
  }
  __device__ __forceinline__ float log_sum() const { return (maximum + log2f(sum)) / kLog2E; }
};

// What one block takes: blocks of the last queries, which see the most keys, go first.
struct QueryBlock {
  i32 row, head;  // its first query

  __device__ __forceinline__ QueryBlock(i32 tokens, i32 heads, i32 rows)
      : row(((tokens + rows - 1) / rows - 1 - static_cast<i32>(blockIdx.x) / heads) * rows),
        head(static_cast<i32>(blockIdx.x) % heads) {}
};

template <class Element, class Lies, int kHead, int kRows>
__device__ __forceinline__ void run_attention(const AttentionParams& p) {
  __shared__ AttentionShared<kHead, kRows> shared;
  const QueryBlock block(p.tokens, p.heads, kRows);
  const i32 rows = min(kRows, p.tokens - block.row);
  const i64 row = block.row, column = static_cast<i64>(block.head) * kHead;
  for (int i = threadIdx.x; i < kRows * kHead; i += kAttentionThreads) {
    const int r = i / kHead, d = i % kHead;
    shared.q[r][d] = r < rows ? Element::widen(*element<Element>(p.q, row + r, column + d)) : 0.f;
  }
  __syncthreads();

  AttentionWarp<Element, Lies, kHead, kRows> warp(p, shared, block.head);
  const i32 seen = p.keys - p.tokens + block.row + 1;  // keys that row 0 of the block sees
  for (i32 first = warp.warp * kStep; first < seen + rows - 1; first += kAttentionWarps * kStep)
    warp.take(first, seen - first);
  warp.leave();
  __syncthreads();
  for (int i = threadIdx.x; i < rows * kHead; i += kAttentionThreads) {
    const int r = i / kHead, d = i % kHead;
    const Joined<kHead, kRows> joined(shared, r);
    *element<Element>(p.out, row + r, column + d) = Element::narrow(joined.entry(shared, r, d));
    if (d == 0 && p.lse.data != nullptr) *element<F32>(p.lse, row + r, block.head) = joined.log_sum();
  }
}

}  // namespace coda
