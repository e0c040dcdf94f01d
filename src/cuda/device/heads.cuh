// Sums over whole heads, of a thread's two rows: `sums` has one for each head of a tile, or of a group of columns that
// an elementwise pass walks through; Position counts columns from its first.
#pragma once

#include "reduce.cuh"

namespace coda {

// The heads that share the octet of a thread's column c: at most two, for none is narrower, and which they are is known
// when the loops are unrolled.
template <int Head, int Heads>
struct HeadsOfOctet {
  static_assert(Head >= 8);
  i32 first, last;
  bool in_last;  // the column is in the last

  __device__ __forceinline__ HeadsOfOctet(const Position& at, int c)
      : first(Heads == 1 ? 0 : column_of<true>(at, c) / Head),
        last(Heads == 1 ? 0 : (column_of<true>(at, c) + 7) / Head),
        in_last(first == last || column_of<false>(at, c) >= last * Head) {}
};

template <int Head, int Heads, int Count>
__device__ __forceinline__ void add_to_heads(float (&sums)[Heads][Count][2], int which, const Position& at,
                                             const float (&terms)[8]) {
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const HeadsOfOctet<Head, Heads> heads(at, col_of(e));
    if (heads.in_last) sums[heads.last][which][row_of(e)] += terms[e];
    if (!heads.in_last) sums[heads.first][which][row_of(e)] += terms[e];
  }
}

template <int Head, int Heads, int Count>
__device__ __forceinline__ float of_head(const float (&sums)[Heads][Count][2], int which, const Position& at, int e) {
  const HeadsOfOctet<Head, Heads> heads(at, col_of(e));
  const float first = sums[heads.first][which][row_of(e)], last = sums[heads.last][which][row_of(e)];
  return heads.in_last ? last : first;
}

template <int Heads, int Count>
__device__ __forceinline__ void clear_heads(float (&sums)[Heads][Count][2], int which) {
#pragma unroll
  for (int head = 0; head < Heads; ++head) sums[head][which][0] = sums[head][which][1] = 0.f;
}

template <int Heads, int Count>
__device__ __forceinline__ void merge_heads(float (&sums)[Heads][Count][2], int which) {
#pragma unroll
  for (int head = 0; head < Heads; ++head)
#pragma unroll
    for (int r = 0; r < 2; ++r) sums[head][which][r] = sum_of_quad(sums[head][which][r]);
}

}  // namespace coda
