// Reductions along the rows of the output: partials that a program makes, a number for every `width` columns; and
// partials of rows and of columns that it finishes. A quad, four neighbouring lanes, shares two rows; every sum is
// taken in one fixed order, whatever the tile.
#pragma once

#include "tile.cuh"

namespace coda {

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

// The same operations as src/problem/reducer.h: NaN is kept. add takes the four entries a thread has of a row, add_one
// a partial; none() counts for nothing.
__device__ __forceinline__ float sum_of_quad(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

struct RowSum {
  float sum[2] = {0.f, 0.f};

  __device__ __forceinline__ static float none() { return 0.f; }
  __device__ __forceinline__ void add(int r, const float (&entries)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[r] += entries[i];  // one after the other: a square becomes part of its addition
  }
  __device__ __forceinline__ void add_one(int r, float value) { sum[r] += value; }
  __device__ __forceinline__ void merge_quad() {
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] = sum_of_quad(sum[r]);
  }
  __device__ __forceinline__ float result(int r) const { return sum[r]; }
};

__device__ __forceinline__ float largest_of(const float (&entries)[4]) {
  return max_keeping_nan(max_keeping_nan(entries[0], entries[1]), max_keeping_nan(entries[2], entries[3]));
}

struct RowMax {
  float largest[2] = {-infinity(), -infinity()};

  __device__ __forceinline__ static float none() { return -infinity(); }
  __device__ __forceinline__ void add(int r, const float (&entries)[4]) { add_one(r, largest_of(entries)); }
  __device__ __forceinline__ void add_one(int r, float value) { largest[r] = max_keeping_nan(largest[r], value); }
  __device__ __forceinline__ void merge_quad() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      add_one(r, __shfl_xor_sync(0xffffffffu, largest[r], 1));
      add_one(r, __shfl_xor_sync(0xffffffffu, largest[r], 2));
    }
  }
  __device__ __forceinline__ float result(int r) const { return largest[r]; }
};

// sum is Σ exp(entry − pivot). The pivot follows the largest entry only when that has grown by kSlack, so that most
// entries cost one exponential, and stays finite: infinite entries and NaN make the sum so.
struct RowLogSumExp {
  static constexpr float kSlack = 20.f;
  static constexpr float kLowest = -3.4028234663852886e38f;
  float pivot[2] = {kLowest, kLowest};
  float sum[2] = {0.f, 0.f};

  __device__ __forceinline__ static float none() { return -infinity(); }
  __device__ __forceinline__ void add(int r, const float (&entries)[4]) {
    follow(r, largest_of(entries));
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[r] += exp2_approx((entries[i] - pivot[r]) * kLog2E);
  }
  __device__ __forceinline__ void add_one(int r, float value) {
    follow(r, value);
    sum[r] += exp2_approx((value - pivot[r]) * kLog2E);
  }
  __device__ __forceinline__ void merge_quad() {
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int step = 1; step < 4; step *= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, pivot[r], step);
        const float other_sum = __shfl_xor_sync(0xffffffffu, sum[r], step);
        const float both = max(pivot[r], other);
        sum[r] = scaled(sum[r], pivot[r] - both) + scaled(other_sum, other - both);
        pivot[r] = both;
      }
  }
  __device__ __forceinline__ float result(int r) const { return pivot[r] + logf(sum[r]); }

 private:
  __device__ __forceinline__ static float scaled(float sum, float change) {
    return sum < infinity() ? sum * exp2_approx(change * kLog2E) : sum;
  }
  __device__ __forceinline__ void follow(int r, float largest) {
    if (largest - pivot[r] > kSlack && largest < infinity()) {
      sum[r] = scaled(sum[r], pivot[r] - largest);
      pivot[r] = largest;
    }
  }
};

// What a thread has reduced since the last whole width of columns.
template <class Reducer>
struct Partial {
  Reducer reducer;

  __device__ __forceinline__ void add(const Position& at, const float (&values)[8]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float entries[4];
#pragma unroll
      for (int c = 0; c < 4; ++c)
        entries[c] = at.whole || global_col(at, c) < at.cols ? values[element_of(r, c)] : Reducer::none();
      reducer.add(r, entries);
    }
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

struct alignas(16) FourFloats {
  float values[4];
};

// Adds partials `first` to `first` + 3 of each of the thread's two rows, and the same of the next three groups of 16:
// all exist or are past `count`, and are loaded before the first is added.
template <class Reducer>
__device__ __forceinline__ void add_fours(const Matrix& from, i32 first, i32 count, const Position& at,
                                          Reducer& reducer) {
  FourFloats some[4][2];
#pragma unroll
  for (int group = 0; group < 4; ++group) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const i32 begin = first + group * 16, row = global_row(at, r);
#pragma unroll
      for (int i = 0; i < 4; ++i) some[group][r].values[i] = Reducer::none();
      if (row < at.rows && begin < count)
        some[group][r] = *reinterpret_cast<const FourFloats*>(element<F32>(from, row, begin));
    }
  }
#pragma unroll
  for (int group = 0; group < 4; ++group)
#pragma unroll
    for (int i = 0; i < 8; ++i) reducer.add_one(i % 2, some[group][i % 2].values[i / 2]);
}

// The same one by one, for partials that do not lie in fours: eight are on their way at a time. Groups are not
// unrolled: few need them, and all would carry their text.
template <class Reducer>
__device__ __forceinline__ void add_singly(const Matrix& from, i32 first, i32 count, const Position& at,
                                           Reducer& reducer) {
#pragma unroll 1
  for (i32 begin = first; begin < count && begin < first + 64; begin += 16) {
    float some[4][2];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const i32 partial = begin + i / 2, row = global_row(at, i % 2);
      some[i / 2][i % 2] = partial < count && row < at.rows ? *element<F32>(from, row, partial) : Reducer::none();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) reducer.add_one(i % 2, some[i / 2][i % 2]);
  }
}

// Finishes `count` partials of each of the thread's two rows: the lanes of the quad take four each in turn.
template <class Reducer>
__device__ __forceinline__ void finish_row(const Matrix& from, i32 count, const Position& at, float (&values)[2]) {
  Reducer reducer;
  const bool in_fours = count % 4 == 0 && from.col_stride == 1 && from.row_stride % 4 == 0 &&
                        reinterpret_cast<u64>(from.data) % sizeof(FourFloats) == 0;
#pragma unroll 1
  for (i32 first = static_cast<i32>(lane_id() % 4) * 4; first < count; first += 64) {
    if (in_fours) {
      add_fours(from, first, count, at, reducer);
    } else {
      add_singly(from, first, count, at, reducer);
    }
  }
  reducer.merge_quad();
#pragma unroll
  for (int r = 0; r < 2; ++r) values[r] = reducer.result(r);
}

// Finishes `count` partials of one column.
template <class Reducer>
__device__ __forceinline__ float finish_column(const Matrix& from, i32 count, i32 col, bool exists) {
  Reducer reducer;
  for (i32 i = 0; exists && i < count; ++i) reducer.add_one(0, *element<F32>(from, i, col));
  return reducer.result(0);
}

// The entries that the thread's two rows select by their indices, wherever they come by.
template <class Element>
struct Selected {
  float value[2];
  bool found[2] = {false, false};

  __device__ __forceinline__ void add(const Position& at, const float (&columns)[2], const float (&values)[8]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const i32 column = static_cast<i32>(columns[r]), from_first = column - at.col;
      // Few chunks have one: the others pay for this test alone.
      if (from_first < 0 || from_first > 9 || (!at.whole && column >= at.cols)) continue;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const bool here = from_first == col_offset(at.in_fours, c);
        value[r] = here ? values[element_of(r, c)] : value[r];
        found[r] |= here;
      }
    }
  }

  // An index that is `ignored` selects nothing, be it a column or not.
  __device__ __forceinline__ void store(const Matrix& to, const Position& at, const float (&columns)[2],
                                        float ignored) const {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (found[r] && columns[r] != ignored && global_row(at, r) < at.rows)
        *element<Element>(to, global_row(at, r), 0) = Element::narrow(value[r]);
  }
};

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

}  // namespace coda
