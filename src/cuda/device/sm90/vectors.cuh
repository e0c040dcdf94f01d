// What a program needs of a tile beside its elements: Cols in registers and Rows in shared memory, made once a tile,
// and sums over whole heads.
#pragma once

#include "pairs.cuh"
#include "reduce.cuh"
#include "sm90/staging.cuh"

namespace coda {

// A thread's place in the chunk that begins `in_tile` columns into a tile; `row` is the first of its warpgroup's 64.
template <class Arguments>
__device__ __forceinline__ Position position_of(const Arguments& arguments, const Tile& tile, i32 row, i32 in_tile,
                                                bool last, bool whole) {
  const u32 thread = threadIdx.x % 128, lane = thread % 32;
  const i32 own_row = row + static_cast<i32>(thread / 32 * 16 + lane / 4), col = tile.col + in_tile;
  return {own_row, col + static_cast<i32>(lane % 4 * 2), arguments.rows, arguments.cols, col, in_tile, last, whole};
}

// What a program keeps for a tile: its Cols in registers, its Rows in shared memory.
template <class C>
struct TileVectors {
  float cols[kRowBlocks<C>][kAtLeastOne<C::kCols>][2];
  u32 rows;

  __device__ TileVectors(u32 base, u32 consumer)
      : rows(base + Layout<C>::kRowVectors + consumer * C::kRows * Layout<C>::kRowVectorBytes) {}
};

// Sums over whole heads of a thread's two rows.
template <class C, class Program>
using HeadSums = float[Program::kSpans > 0 ? C::kOutputTileN / Program::kSpanHead : 1][kAtLeastOne<Program::kSpans>][2];

// The same for one chunk, with the sums over whole heads.
template <class C, class Program>
struct ChunkVectors {
  const float (&cols)[kAtLeastOne<C::kCols>][2];
  const HeadSums<C, Program>& spans;
  u32 rows;  // of the thread's first column

  __device__ __forceinline__ ChunkVectors(const TileVectors<C>& tile, const HeadSums<C, Program>& sums, int block,
                                          i32 in_tile)
      : cols(tile.cols[block]), spans(sums), rows(tile.rows + (in_tile + lane_id() % 4 * 2) * 4) {}

  template <int Index>
  __device__ __forceinline__ u32 address(int c) const {
    return rows + Index * Layout<C>::kRowVectorBytes + c / 2 * 32 + c % 2 * 4;
  }

  // The entries of the thread's four columns.
  template <int Index>
  __device__ __forceinline__ void row(float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; c += 2) shared_load(address<Index>(c), values[c], values[c + 1]);
  }

  // Those of their partners, and those of the pairs they are in, which are kept at a pair's first column.
  template <int Index, class Pairs>
  __device__ __forceinline__ void partner_row(const Position& at, float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) values[c] = shared_load_one(address<Index>(c) + Pairs::to_partner(at, c) * 4);
  }
  template <int Index, class Pairs>
  __device__ __forceinline__ void pair_row(const Position& at, float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c)  // of two neighbours that pair, one load serves both, and all that hangs on it
      values[c] = c % 2 == 1 && Pairs::to_first(at, c) == -1
                      ? values[c - 1]
                      : shared_load_one(address<Index>(c) + Pairs::to_first(at, c) * 4);
  }

  template <int Index>
  __device__ __forceinline__ float span(const Position& at, int e) const {
    return spans[octet_of(at, col_of(e)) / Program::kSpanHead][Index][row_of(e)];
  }
};

// The sums over whole heads of one row block: they come before anything that uses them. `row`: the block's first.
template <class C, class Program>
__device__ __forceinline__ void sum_spans(const typename Program::Arguments& arguments, const Tile& tile, i32 row,
                                          const float (&acc)[C::kTileN / 2], const TileVectors<C>& vectors, int block,
                                          HeadSums<C, Program>& spans) {
  constexpr int kHeads = C::kOutputTileN / Program::kSpanHead;
#pragma unroll
  for (int head = 0; head < kHeads; ++head)
#pragma unroll
    for (int i = 0; i < Program::kSpans; ++i) spans[head][i][0] = spans[head][i][1] = 0.f;
#pragma unroll
  for (int chunk = 0; chunk < C::kOutputTileN / 16; ++chunk) {
    float acc0[8], acc1[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      acc0[e] = acc[chunk * 8 + e];
      acc1[e] = C::kPair ? acc[C::kTileN / 4 + chunk * 8 + e] : 0;
    }
    const Position at = position_of(arguments, tile, row, chunk * 16, false, false);
    Program::spans(arguments, at, ChunkVectors<C, Program>(vectors, spans, block, chunk * 16), acc0, acc1, spans);
  }
#pragma unroll
  for (int head = 0; head < kHeads; ++head)
#pragma unroll
    for (int i = 0; i < Program::kSpans; ++i)
#pragma unroll
      for (int r = 0; r < 2; ++r) spans[head][i][r] = sum_of_quad(spans[head][i][r]);
}

// Computes a tile's vectors, under a product, which hides the way of what is loaded.
template <class C, class Program>
__device__ __forceinline__ void begin_tile(const typename Program::Arguments& arguments, const Tile& tile,
                                           const Staging<C>& staging, TileVectors<C>& vectors) {
  const u32 thread = threadIdx.x % 128;
  if constexpr (Program::kCols > 0) {
#pragma unroll
    for (int block = 0; block < kRowBlocks<C>; ++block) {
      const i32 row = tile.row + consumer_row<C>(staging.consumer) + block * 64;
      Program::cols(arguments, position_of(arguments, tile, row, 0, false, false), vectors.cols[block]);
    }
  }
  if constexpr (Program::kRows > 0) {
    staging.sync();  // until all have read the last tile's
    for (i32 col = static_cast<i32>(thread); col < C::kOutputTileN; col += 128) {
      float kept[Program::kRows];
      Program::rows(arguments, tile.col + col, kept);
#pragma unroll
      for (int i = 0; i < Program::kRows; ++i)
        shared_store(vectors.rows + i * Layout<C>::kRowVectorBytes + col * 4, kept[i]);
    }
  }
}

}  // namespace coda
