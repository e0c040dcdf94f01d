// A thread's view of the output tile, and its way to operands that do not come staged. A chunk is 16 rows × 16 columns
// a warp, 8 elements a thread, of two rows that lie 8 apart. Its four columns are two pairs that lie 8 apart, as a
// product leaves them; where there is none, and what columns meet are whole chunks, they are neighbours.
// Every access here is predicated: nothing outside rows × cols is touched.
#pragma once

#include "element.cuh"
#include "math.cuh"

namespace coda {

// First element of a thread's chunk, inside its segment of rows × cols.
struct Position {
  i32 row;
  i32 col;
  i32 rows;
  i32 cols;
  i32 chunk_col;  // first column of the warp's chunk
  i32 in_tile;    // the same, counted from the tile's first column: a constant of the unrolled loops
  bool last;      // of the tile's chunks in these rows
  bool whole;     // a constant too: all columns of the tile exist
  bool inside;    // and this one: all rows too
  bool in_fours;  // and this one: the thread's columns are neighbours

  // The chunk ends a group of `width` columns; tiles begin with one.
  __device__ __forceinline__ bool ends(i32 width) const { return (in_tile + 16) % width == 0; }
};

__device__ __forceinline__ constexpr int row_of(int e) { return e / 2 % 2; }          // 0 or 1: the thread's rows
__device__ __forceinline__ constexpr int col_of(int e) { return e % 2 + e / 4 * 2; }  // 0 … 3: its columns
__device__ __forceinline__ constexpr int element_of(int r, int c) { return c % 2 + 2 * r + c / 2 * 4; }

__device__ __forceinline__ i32 global_row(const Position& at, int r) { return at.row + 8 * r; }
// Columns from the thread's first to its column c.
__device__ __forceinline__ i32 col_offset(bool in_fours, int c) { return in_fours ? c : c % 2 + c / 2 * 8; }
__device__ __forceinline__ i32 global_col(const Position& at, int c) { return at.col + col_offset(at.in_fours, c); }

// A thread's column c where columns meet, counted from the tile's first; where `Octets`, the first of the eight around
// it instead, which is known when the loops are unrolled. Of neighbours it may be the chunk's other octet, which is
// alike.
template <bool Octets>
__device__ __forceinline__ i32 column_of(const Position& at, int c) {
  return at.in_tile + c / 2 * 8 + (Octets ? 0 : static_cast<i32>(lane_id() % 4 * 2) + c % 2);
}

// Strides in elements. A Row has row_stride 0, a Col col_stride 0.
struct Matrix {
  void* data;
  i64 row_stride;
  i64 col_stride;
};

template <class Element>
__device__ __forceinline__ typename Element::Storage* element(const Matrix& m, i64 row, i64 col) {
  return static_cast<typename Element::Storage*>(m.data) + row * m.row_stride + col * m.col_stride;
}

// `Count` neighbouring columns of one row.
template <class Element, int Count>
struct alignas(Count * sizeof(typename Element::Storage)) Neighbours {
  typename Element::Storage entries[Count];
};

// Those that begin `further` columns behind the thread's column c. One address serves all that a thread has of a row.
template <class Element, int Count>
__device__ __forceinline__ Neighbours<Element, Count>& neighbours_at(const Matrix& m, const Position& at, int r, int c,
                                                                     i32 further = 0) {
  auto* const first =
      static_cast<typename Element::Storage*>(m.data) + global_row(at, r) * m.row_stride + (at.col - at.in_tile);
  return *reinterpret_cast<Neighbours<Element, Count>*>(first + (at.in_tile + col_offset(at.in_fours, c) + further));
}

// One entry of a row vector; 0 where there is none.
template <class Element>
__device__ __forceinline__ float load_entry(const Matrix& from, i32 entry, bool exists) {
  return exists ? Element::widen(*element<Element>(from, 0, entry)) : 0.f;
}

// The thread's two entries of a column vector.
template <class Element>
__device__ __forceinline__ void load_col(const Matrix& from, const Position& at, float (&values)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const i32 row = global_row(at, r);
    values[r] = row < at.rows ? Element::widen(*element<Element>(from, row, 0)) : 0.f;
  }
}

// Writes an element, or adds to it.
template <class Element>
__device__ __forceinline__ void put(const Matrix& to, i32 row, i32 col, float value) {
  typename Element::Storage* const at = element<Element>(to, row, col);
  if constexpr (kAdds<Element>) value += Element::widen(*at);
  *at = Element::narrow(value);
}

template <class Element>
__device__ __forceinline__ float load_scalar(const Matrix& from) {
  return Element::widen(*element<Element>(from, 0, 0));
}

// How a tile that is not staged is touched: four or two neighbouring columns at once, which asks for column stride 1, a
// row stride of whole fours or twos and a base aligned to as many elements; or one by one, two after each other. Fours
// are of a thread whose columns are neighbours.
struct Fours {
  static constexpr bool kAtOnce = true;
  static constexpr int kCount = 4;
};
struct Paired {
  static constexpr bool kAtOnce = true;
  static constexpr int kCount = 2;
};
struct Single {
  static constexpr bool kAtOnce = false;
  static constexpr int kCount = 2;
};

// Calls act(r, c) for the first of each neighbours that are touched together.
template <class Access, class Act>
__device__ __forceinline__ void each_access(Act&& act) {
#pragma unroll
  for (int c = 0; c < 4; c += Access::kCount)
#pragma unroll
    for (int r = 0; r < 2; ++r) act(r, c);
}

// They all exist.
template <class Access>
__device__ __forceinline__ bool all_exist(const Position& at, i32 row, i32 col) {
  return at.inside || (row < at.rows && col + Access::kCount - 1 < at.cols);
}

// The thread's eight elements of a tile operand. Its columns repeat after `Period` (0: never).
template <class Element, class Access, int Period>
__device__ __forceinline__ void load_tile(const Matrix& from, const Position& at, float (&values)[8]) {
  each_access<Access>([&](int r, int c) {
    const i32 row = global_row(at, r), col = global_col(at, c);
    if (Access::kAtOnce && Period == 0 && all_exist<Access>(at, row, col)) {
      const auto some = neighbours_at<Element, Access::kCount>(from, at, r, c);
#pragma unroll
      for (int i = 0; i < Access::kCount; ++i) values[element_of(r, c + i)] = Element::widen(some.entries[i]);
      return;
    }
#pragma unroll
    for (int i = 0; i < Access::kCount; ++i) {
      const i32 entry = Period > 0 ? (col + i) % (Period > 0 ? Period : 1) : col + i;
      const bool exists = at.inside || (row < at.rows && col + i < at.cols);
      values[element_of(r, c + i)] = exists ? Element::widen(*element<Element>(from, row, entry)) : 0.f;
    }
  });
}

template <class Element, class Access>
__device__ __forceinline__ void store_tile(const Matrix& to, const Position& at, const float (&values)[8]) {
  each_access<Access>([&](int r, int c) {
    const i32 row = global_row(at, r), col = global_col(at, c);
    if (Access::kAtOnce && all_exist<Access>(at, row, col)) {
      Neighbours<Element, Access::kCount> some;
#pragma unroll
      for (int i = 0; i < Access::kCount; ++i) some.entries[i] = Element::narrow(values[element_of(r, c + i)]);
      neighbours_at<Element, Access::kCount>(to, at, r, c) = some;
      return;
    }
#pragma unroll
    for (int i = 0; i < Access::kCount; ++i)
      if (at.inside || (row < at.rows && col + i < at.cols))
        *element<Element>(to, row, col + i) = Element::narrow(values[element_of(r, c + i)]);
  });
}

// A Col, by the tile that has the first column; a Row, by the thread that has the first row; a Scalar, by the one that
// has both.
template <class Element>
__device__ __forceinline__ void store_col(const Matrix& to, const Position& at, const float (&values)[2]) {
  if (at.col != 0) return;
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (global_row(at, r) < at.rows) put<Element>(to, global_row(at, r), 0, values[r]);
}

template <class Element>
__device__ __forceinline__ void store_row(const Matrix& to, const Position& at, const float (&values)[4]) {
  if (at.row != 0) return;
#pragma unroll
  for (int c = 0; c < 4; ++c)
    if (global_col(at, c) < at.cols) put<Element>(to, 0, global_col(at, c), values[c]);
}

template <class Element>
__device__ __forceinline__ void store_scalar(const Matrix& to, const Position& at, float value) {
  if (at.row == 0 && at.col == 0) put<Element>(to, 0, 0, value);
}

}  // namespace coda
