// Columns that are paired inside a head. An octet, eight neighbouring columns, holds both columns of a thread or none.
// Where heads and halves are whole octets, what a column is depends on its octet alone and is known when the loops are
// unrolled; elsewhere it depends on the lane too.
#pragma once

#include "reduce.cuh"

namespace coda {

struct NoPairs {
  static constexpr bool kAny = false;
};

// What a column is to its pair.
enum class Member { First, Second, Rest };

// Column c of the first half pairs with column c + Width/2, in the first Width columns of every Head.
template <int Head, int Width>
struct Halves {
  static constexpr bool kAny = true;
  static constexpr int kDistance = Width / 2;
  static constexpr bool kOctets = Head % 8 == 0 && kDistance % 8 == 0;
  // What a thread touches at once, two columns or, where all is whole chunks, four, has neighbours as partners.
  static constexpr bool kByTwo = Head % 2 == 0 && kDistance % 2 == 0;

  __device__ __forceinline__ static constexpr Member member(i32 col) {
    return col % Head < kDistance ? Member::First : col % Head < Width ? Member::Second : Member::Rest;
  }
  __device__ __forceinline__ static bool is_first(const Position& at, int c) {
    return member(column_of<kOctets>(at, c)) == Member::First;
  }
  __device__ __forceinline__ static bool is_rest(const Position& at, int c) {
    return member(column_of<kOctets>(at, c)) == Member::Rest;
  }
  // Number of the pair whose first member is column `col`.
  __device__ __forceinline__ static i32 pair_of(i32 col) { return col / Head * kDistance + col % Head; }
};

// Column 2c pairs with column 2c + 1. In an even head both are one thread's.
template <int Head, int Width>
struct Interleaved {
  static constexpr bool kAny = true;
  static constexpr int kDistance = 1;
  static constexpr bool kOctets = Head % 8 == 0 && Width % 8 == 0;
  static constexpr bool kByTwo = false;

  __device__ __forceinline__ static constexpr Member member(i32 col) {
    return col % Head >= Width ? Member::Rest : col % Head % 2 == 0 ? Member::First : Member::Second;
  }
  __device__ __forceinline__ static bool is_first(const Position& at, int c) {
    return Head % 2 == 0 ? c % 2 == 0 : member(column_of<false>(at, c)) == Member::First;
  }
  __device__ __forceinline__ static bool is_rest(const Position& at, int c) {
    return member(column_of<kOctets>(at, c)) == Member::Rest;
  }
  __device__ __forceinline__ static i32 pair_of(i32 col) { return col / Head * (Width / 2) + col % Head / 2; }
};

// Columns from a thread's column to its partner, and to the first member of its pair; 0 where it has none.
template <class Pairs>
__device__ __forceinline__ i32 to_partner(const Position& at, int c) {
  return Pairs::is_rest(at, c) ? 0 : Pairs::is_first(at, c) ? Pairs::kDistance : -Pairs::kDistance;
}
template <class Pairs>
__device__ __forceinline__ i32 to_first(const Position& at, int c) {
  return Pairs::is_rest(at, c) || Pairs::is_first(at, c) ? 0 : -Pairs::kDistance;
}

// The accumulator `Shift` columns behind element e's, in its row: its own lane's or, by one shuffle, that of the lane
// of the quad that holds the column. The accumulators of a tile's `Size` begin at `begin`. Anything where there is
// none.
template <int Shift, int Size, int Count>
__device__ __forceinline__ float shifted(const float (&acc)[Count], int begin, i32 in_tile, int e) {
  // Lane q has columns 2q and 2q + 1 of an octet: the entry lies `lanes` further, in the next octet where that ends.
  const int columns = e % 2 + Shift, lanes = (columns >> 1) & 3, octet = in_tile / 8 + e / 4 + (columns >> 3);
  const auto entry = [&](int of_octet) {
    const int inside = of_octet < 0 ? 0 : of_octet < Size / 4 ? of_octet : Size / 4 - 1;
    return acc[begin + inside * 4 + row_of(e) * 2 + (columns & 1)];
  };
  if (lanes == 0) return entry(octet);
  const int lane = static_cast<int>(lane_id() % 4);
  const float here = settled(entry(octet)), next = settled(entry(octet + 1));
  return __shfl_sync(0xffffffffu, lane >= lanes ? here : next, (lane + lanes) % 4, 4);
}

// One of the four columns that the quad has as its element e is such a member.
template <class Pairs>
__device__ __forceinline__ constexpr bool any_is(Member member, i32 in_tile, int e) {
  for (int lane = 0; lane < 4; ++lane)
    if (Pairs::member(in_tile + e / 4 * 8 + lane * 2 + e % 2) == member) return true;
  return false;
}

// Element e's partner among a tile's accumulators; its own where it has none.
template <class Pairs, int Size, int Count>
__device__ __forceinline__ float partner_of(const float (&acc)[Count], int begin, const Position& at, int e) {
  const float own = acc[begin + at.in_tile / 2 + e];
  if constexpr (Pairs::kAny) {
    const int c = col_of(e);
    float behind = own, before = own;
    if (any_is<Pairs>(Member::First, at.in_tile, e))
      behind = shifted<Pairs::kDistance, Size>(acc, begin, at.in_tile, e);
    if (any_is<Pairs>(Member::Second, at.in_tile, e))
      before = shifted<-Pairs::kDistance, Size>(acc, begin, at.in_tile, e);
    return Pairs::is_rest(at, c) ? own : Pairs::is_first(at, c) ? behind : before;
  } else {
    return own;
  }
}

// The partners of the thread's eight elements of a tile operand, whose columns repeat after `Period` (0: never).
template <class Element, class Access, class Pairs, int Period>
__device__ __forceinline__ void load_partner_tile(const Matrix& from, const Position& at, float (&values)[8]) {
  each_access<Access>([&](int r, int c) {
    if (Access::kAtOnce && Pairs::kByTwo && Period == 0 && at.inside) {
      const auto some = neighbours_at<Element, Access::kCount>(from, at, r, c, to_partner<Pairs>(at, c));
#pragma unroll
      for (int i = 0; i < Access::kCount; ++i) values[element_of(r, c + i)] = Element::widen(some.entries[i]);
      return;
    }
    const i32 row = global_row(at, r), own = global_col(at, c);
#pragma unroll
    for (int i = 0; i < Access::kCount; ++i) {
      const i32 col = own + i + to_partner<Pairs>(at, c + i);
      const i32 entry = Period > 0 ? col % (Period > 0 ? Period : 1) : col;
      const bool exists = at.inside || (row < at.rows && own + i < at.cols);
      values[element_of(r, c + i)] = exists ? Element::widen(*element<Element>(from, row, entry)) : 0.f;
    }
  });
}

// The thread's eight elements of a tile with an entry a pair, whose entries repeat after `Period` (0: never).
template <class Element, class Pairs, int Period>
__device__ __forceinline__ void load_pair_tile(const Matrix& from, const Position& at, float (&values)[8]) {
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const i32 row = global_row(at, row_of(e)), col = global_col(at, col_of(e));
    const bool exists = (at.inside || (row < at.rows && col < at.cols)) && !Pairs::is_rest(at, col_of(e));
    const i32 pair = Pairs::pair_of(col + to_first<Pairs>(at, col_of(e)));
    const i32 entry = Period > 0 ? pair % (Period > 0 ? Period : 1) : pair;
    values[e] = exists ? Element::widen(*element<Element>(from, row, entry)) : 0.f;
  }
}

// Writes such a tile: the thread with a pair's first column has its entry.
template <class Element, class Pairs>
__device__ __forceinline__ void store_pair_tile(const Matrix& to, const Position& at, const float (&values)[8]) {
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const i32 row = global_row(at, row_of(e)), col = global_col(at, col_of(e));
    if (row < at.rows && col < at.cols && Pairs::member(col) == Member::First)
      *element<Element>(to, row, Pairs::pair_of(col)) = Element::narrow(values[e]);
  }
}

// A Row with an entry a pair.
template <class Element, class Pairs>
__device__ __forceinline__ void store_pair_row(const Matrix& to, const Position& at, const float (&values)[4]) {
  if (at.row != 0) return;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const i32 col = global_col(at, c);
    if (col < at.cols && Pairs::member(col) == Member::First) put<Element>(to, 0, Pairs::pair_of(col), values[c]);
  }
}

}  // namespace coda
