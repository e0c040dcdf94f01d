// Reductions along the rows of the output: partials that a program makes, a number for every `width` columns, and
// partials that it finishes. A quad, four neighbouring lanes, shares two rows; every sum is taken in one fixed order,
// whatever the tile.
#pragma once

#include "tile.cuh"

namespace coda {

constexpr float kLog2E = 1.4426950408889634f;
__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

// The same operation as src/problem/reducer.h: NaN is kept, columns past the end count for nothing.
struct RowSum {
  float sum[2] = {0.f, 0.f};

  __device__ __forceinline__ void add(int r, float value) { sum[r] += value; }
  __device__ __forceinline__ void merge_quad() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
    }
  }
  __device__ __forceinline__ float result(int r) const { return sum[r]; }
};

struct RowMax {
  float largest[2] = {-infinity(), -infinity()};

  __device__ __forceinline__ void add(int r, float value) { largest[r] = max_keeping_nan(largest[r], value); }
  __device__ __forceinline__ void merge_quad() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = max_keeping_nan(largest[r], __shfl_xor_sync(0xffffffffu, largest[r], 1));
      largest[r] = max_keeping_nan(largest[r], __shfl_xor_sync(0xffffffffu, largest[r], 2));
    }
  }
  __device__ __forceinline__ float result(int r) const { return largest[r]; }
};

// sum is Σ exp(value − largest). A largest of ±∞ or NaN is the result by itself.
struct RowLogSumExp {
  float largest[2] = {-infinity(), -infinity()};
  float sum[2] = {0.f, 0.f};

  __device__ __forceinline__ void add(int r, float value) { merge(r, value, 1.f); }
  __device__ __forceinline__ void merge(int r, float other_largest, float other_sum) {
    const float both = max_keeping_nan(largest[r], other_largest);
    const float pivot = fabsf(both) == infinity() ? 0.f : both;
    sum[r] = sum[r] * exp2f((largest[r] - pivot) * kLog2E) + other_sum * exp2f((other_largest - pivot) * kLog2E);
    largest[r] = both;
  }
  __device__ __forceinline__ void merge_quad() {
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int step = 1; step < 4; step *= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, largest[r], step);
        merge(r, other, __shfl_xor_sync(0xffffffffu, sum[r], step));
      }
  }
  __device__ __forceinline__ float result(int r) const {
    const bool finite = fabsf(largest[r]) < infinity();
    return finite ? largest[r] + logf(sum[r]) : largest[r];
  }
};

// What a thread has reduced since the last whole width of columns.
template <class Reducer>
struct Partial {
  Reducer reducer;

  __device__ __forceinline__ void add(const Position& at, const float (&values)[8]) {
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (global_col(at, col_of(e)) < at.cols) reducer.add(row_of(e), values[e]);
  }

  // Writes the partials that end with this chunk, and begins anew.
  __device__ __forceinline__ void store(const Matrix& to, const Position& at, i32 width) {
    reducer.merge_quad();
    const i32 first = at.chunk_col + 16 - width;  // of the group
    if (lane_id() % 4 == 0 && first < at.cols) {
#pragma unroll
      for (int r = 0; r < 2; ++r)
        if (global_row(at, r) < at.rows) *element<F32>(to, global_row(at, r), first / width) = reducer.result(r);
    }
    reducer = Reducer();
  }
};

// Finishes `count` partials of each of the thread's two rows: the quad takes every fourth.
template <class Reducer>
__device__ __forceinline__ void finish_row(const Matrix& from, i32 count, const Position& at, float (&values)[2]) {
  Reducer reducer;
  for (i32 i = static_cast<i32>(lane_id() % 4); i < count; i += 4) {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (global_row(at, r) < at.rows) reducer.add(r, *element<F32>(from, global_row(at, r), i));
  }
  reducer.merge_quad();
#pragma unroll
  for (int r = 0; r < 2; ++r) values[r] = reducer.result(r);
}

// Element e of a chunk is the entry that its row selects.
__device__ __forceinline__ bool is_selected(const Position& at, int e, float column) {
  return column == static_cast<float>(global_col(at, col_of(e))) && global_col(at, col_of(e)) < at.cols;
}

template <class Element>
__device__ __forceinline__ void store_entry(const Matrix& to, const Position& at, int e, float value) {
  const i32 row = global_row(at, row_of(e));
  if (row < at.rows) *element<Element>(to, row, 0) = Element::narrow(value);
}

// Rows whose index selects no column: 0 where it is `ignored`, NaN where it is out of range.
template <class Element>
__device__ __forceinline__ void store_unselected(const Matrix& to, const Position& at, const float (&columns)[2],
                                                 float ignored) {
  if (at.col != 0) return;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const i32 row = global_row(at, r);
    const bool selects = columns[r] >= 0.f && columns[r] < static_cast<float>(at.cols) && columns[r] != ignored;
    if (row < at.rows && !selects)
      *element<Element>(to, row, 0) = Element::narrow(columns[r] == ignored ? 0.f : __int_as_float(0x7fffffff));
  }
}

// A Col, by the tile that has the first column.
template <class Element>
__device__ __forceinline__ void store_col(const Matrix& to, const Position& at, const float (&values)[2]) {
  if (at.col != 0) return;
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (global_row(at, r) < at.rows) *element<Element>(to, global_row(at, r), 0) = Element::narrow(values[r]);
}

}  // namespace coda
