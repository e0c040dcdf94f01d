// Columns that belong together inside a head: members of a pair, and whole heads that are summed. An octet, eight
// neighbouring columns, holds both columns of a thread or none, so what depends on the octet alone is known when the
// loops are unrolled.
#pragma once

#include "reduce.cuh"

namespace coda {

// First column of element e's octet, counted from the tile's first column.
__device__ __forceinline__ i32 octet_of(const Position& at, int c) { return at.in_tile + c / 2 * 8; }

struct NoPairs {
  static constexpr bool kAny = false;
};

// Column c of the first half pairs with column c + Width/2, in the first Width columns of every Head. Head, Width and
// Width/2 are multiples of 8.
template <int Head, int Width>
struct Halves {
  static constexpr bool kAny = true;
  static constexpr int kDistance = Width / 2;

  __device__ __forceinline__ static bool is_first(const Position& at, int c) {
    return octet_of(at, c) % Head < kDistance;
  }
  __device__ __forceinline__ static bool is_rest(const Position& at, int c) { return octet_of(at, c) % Head >= Width; }
  // Columns from a thread's column to its partner, and to the first member of its pair.
  __device__ __forceinline__ static i32 to_partner(const Position& at, int c) {
    return is_rest(at, c) ? 0 : is_first(at, c) ? kDistance : -kDistance;
  }
  __device__ __forceinline__ static i32 to_first(const Position& at, int c) {
    return is_rest(at, c) || is_first(at, c) ? 0 : -kDistance;
  }
  // Accumulators from element e to its partner: an octet has four of a thread's.
  __device__ __forceinline__ static constexpr int accumulators(i32 octet, int) {
    return octet % Head >= Width ? 0 : octet % Head < kDistance ? kDistance / 2 : -kDistance / 2;
  }
  // Number of the pair whose first member is column `col`.
  __device__ __forceinline__ static i32 pair_of(i32 col) { return col / Head * kDistance + col % Head; }
  __device__ __forceinline__ static bool is_first_col(i32 col) { return col % Head < kDistance; }
};

// Column 2c pairs with column 2c + 1.
template <int Head, int Width>
struct Interleaved {
  static constexpr bool kAny = true;

  __device__ __forceinline__ static bool is_first(const Position&, int c) { return c % 2 == 0; }
  __device__ __forceinline__ static bool is_rest(const Position& at, int c) { return octet_of(at, c) % Head >= Width; }
  __device__ __forceinline__ static i32 to_partner(const Position&, int c) { return c % 2 == 0 ? 1 : -1; }
  __device__ __forceinline__ static i32 to_first(const Position&, int c) { return c % 2 == 0 ? 0 : -1; }
  __device__ __forceinline__ static constexpr int accumulators(i32, int e) { return e % 2 == 0 ? 1 : -1; }
  __device__ __forceinline__ static i32 pair_of(i32 col) { return col / Head * (Width / 2) + col % Head / 2; }
  __device__ __forceinline__ static bool is_first_col(i32 col) { return col % 2 == 0 && col % Head < Width; }
};

// The thread's eight elements of a tile with an entry a pair, whose entries repeat after `Period` (0: never).
template <class Element, class Pairs, int Period>
__device__ __forceinline__ void load_pair_tile(const Matrix& from, const Position& at, float (&values)[8]) {
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const i32 row = global_row(at, row_of(e)), col = global_col(at, col_of(e));
    const bool exists = row < at.rows && col < at.cols && !Pairs::is_rest(at, col_of(e));
    const i32 pair = Pairs::pair_of(col + Pairs::to_first(at, col_of(e)));
    const i32 entry = Period > 0 ? pair % (Period > 0 ? Period : 1) : pair;
    values[e] = exists ? Element::widen(*element<Element>(from, row, entry)) : 0.f;
  }
}

}  // namespace coda
