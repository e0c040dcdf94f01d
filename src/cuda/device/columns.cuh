// Reductions down the columns of the output: a number for every 64 rows, which are those of a warpgroup or of an
// elementwise block. Each warp reduces its 16 rows by shuffles into a line of shared memory, then a thread takes the
// four lines of its column: one fixed order. Rows past the end count for nothing.
#pragma once

#include "reduce.cuh"

namespace coda {

constexpr int kPartialRows = 64;
constexpr int kLines = kPartialRows / 16;

struct ColumnSum {
  __device__ __forceinline__ static float none() { return 0.f; }
  __device__ __forceinline__ static float merge(float a, float b) { return a + b; }
};

struct ColumnMax {
  __device__ __forceinline__ static float none() { return -infinity(); }
  __device__ __forceinline__ static float merge(float a, float b) { return max_keeping_nan(a, b); }
};

// Reduces the chunk's 16 columns over the warp's rows into `line`, at the chunk's place. The eight lanes that share
// four columns halve them twice, each half in other hands, so that four shuffles do what would take twelve.
template <class Reducer>
__device__ __forceinline__ void reduce_down(const Position& at, const float (&values)[8], float* line) {
  const auto with_lane = [](float mine, float given, int lanes) {
    return Reducer::merge(mine, __shfl_xor_sync(0xffffffffu, given, lanes));
  };
  float entries[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    float of_rows[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) of_rows[r] = global_row(at, r) < at.rows ? values[element_of(r, c)] : Reducer::none();
    entries[c] = Reducer::merge(of_rows[0], of_rows[1]);
  }
  const bool last_two = lane_id() & 16, second = lane_id() & 8;
  float halves[2];
#pragma unroll
  for (int c = 0; c < 2; ++c)
    halves[c] = with_lane(last_two ? entries[2 + c] : entries[c], last_two ? entries[c] : entries[2 + c], 16);
  const float quarter = with_lane(second ? halves[1] : halves[0], second ? halves[0] : halves[1], 8);
  const float whole = with_lane(quarter, quarter, 4);
  const i32 own = (at.col - at.chunk_col) + col_offset(at.in_fours, (second ? 1 : 0) + (last_two ? 2 : 0));
  if ((lane_id() & 4) == 0) line[own] = whole;
}

// The partial of one column, from the lines of the four warps: `stride` entries lie between them.
template <class Reducer>
__device__ __forceinline__ void store_partial(const Matrix& to, i32 row, i32 col, const float* line, int stride) {
  const float first = Reducer::merge(line[0], line[stride]),
              second = Reducer::merge(line[2 * stride], line[3 * stride]);
  *element<F32>(to, row / kPartialRows, col) = Reducer::merge(first, second);
}

}  // namespace coda
