// A thread's view of the output tile, and its way to operands that do not come staged. A chunk is 16 rows × 16 columns
// a warp, 8 elements a thread: element e lies 8·(e/2 % 2) rows and e % 2 + 8·(e/4) columns from the thread's first.
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

  // The chunk ends a group of `width` columns; tiles begin with one.
  __device__ __forceinline__ bool ends(i32 width) const { return (in_tile + 16) % width == 0; }
};

__device__ __forceinline__ constexpr int row_of(int e) { return e / 2 % 2; }          // 0 or 1: the thread's rows
__device__ __forceinline__ constexpr int col_of(int e) { return e % 2 + e / 4 * 2; }  // 0 … 3: its columns
__device__ __forceinline__ constexpr int element_of(int r, int c) { return c % 2 + 2 * r + c / 2 * 4; }

__device__ __forceinline__ i32 global_row(const Position& at, int r) { return at.row + 8 * r; }
__device__ __forceinline__ i32 global_col(const Position& at, int c) { return at.col + c % 2 + c / 2 * 8; }

// A thread's column c, counted from the tile's first; where `Octets`, the first of the eight around it instead, which
// is known when the loops are unrolled.
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

// Two neighbouring columns of one row, of a tile that is Paired.
template <class Element>
struct alignas(2 * sizeof(typename Element::Storage)) Pair {
  typename Element::Storage first, second;
};

// Those that begin `further` columns behind the thread's element e. One address serves all that a thread has of a row.
template <class Element>
__device__ __forceinline__ Pair<Element>& pair_at(const Matrix& m, const Position& at, int e, i32 further = 0) {
  auto* const first = static_cast<typename Element::Storage*>(m.data) + global_row(at, row_of(e)) * m.row_stride +
                      (at.col - at.in_tile);
  return *reinterpret_cast<Pair<Element>*>(first + (at.in_tile + col_of(e) / 2 * 8 + further));
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

// How a tile that is not staged is touched: two neighbouring columns at once, which asks for column stride 1, an even
// row stride and a base aligned to two elements; or one by one.
struct Paired {};
struct Single {};

// The thread's eight elements of a tile operand. Its columns repeat after `Period` (0: never).
template <class Element, class Access, int Period>
__device__ __forceinline__ void load_tile(const Matrix& from, const Position& at, float (&values)[8]) {
#pragma unroll
  for (int e = 0; e < 8; e += 2) {
    const i32 row = global_row(at, row_of(e)), col = global_col(at, col_of(e));
    if (kSame<Access, Paired> && Period == 0 && (at.inside || (row < at.rows && col + 1 < at.cols))) {
      const Pair<Element> both = pair_at<Element>(from, at, e);
      values[e] = Element::widen(both.first);
      values[e + 1] = Element::widen(both.second);
      continue;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const i32 entry = Period > 0 ? (col + i) % (Period > 0 ? Period : 1) : col + i;
      const bool exists = at.inside || (row < at.rows && col + i < at.cols);
      values[e + i] = exists ? Element::widen(*element<Element>(from, row, entry)) : 0.f;
    }
  }
}

template <class Element, class Access>
__device__ __forceinline__ void store_tile(const Matrix& to, const Position& at, const float (&values)[8]) {
#pragma unroll
  for (int e = 0; e < 8; e += 2) {
    const i32 row = global_row(at, row_of(e)), col = global_col(at, col_of(e));
    if (kSame<Access, Paired> && (at.inside || (row < at.rows && col + 1 < at.cols))) {
      pair_at<Element>(to, at, e) = {Element::narrow(values[e]), Element::narrow(values[e + 1])};
      continue;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (at.inside || (row < at.rows && col + i < at.cols))
        *element<Element>(to, row, col + i) = Element::narrow(values[e + i]);
  }
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
