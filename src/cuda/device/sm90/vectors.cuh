// What a program needs of a tile beside its elements: its partners, Cols in registers and Rows in shared memory, made
// once a tile, sums over whole heads, and the lines of its reductions down columns.
#pragma once

#include "columns.cuh"
#include "heads.cuh"
#include "pairs.cuh"
#include "sm90/staging.cuh"

namespace coda {

// A thread's place in the chunk that begins `in_tile` columns into a tile; `row` is the first of its warpgroup's 64.
template <class Arguments>
__device__ __forceinline__ Position position_of(const Arguments& arguments, const Tile& tile, i32 row, i32 in_tile,
                                                bool last, bool whole) {
  const u32 thread = threadIdx.x % 128, lane = thread % 32;
  const i32 own_row = row + static_cast<i32>(thread / 32 * 16 + lane / 4), col = tile.col + in_tile;
  return {
      own_row, col + static_cast<i32>(lane % 4 * 2), arguments.rows, arguments.cols, col, in_tile, last, whole, false,
      false};
}

// The accumulators of a chunk, and its partners'.
struct Accumulators {
  float acc0[8], acc1[8], partner0[8], partner1[8];

  template <class C, class Pairs>
  __device__ __forceinline__ static Accumulators of(const float (&acc)[C::kTileN / 2], const Position& at) {
    constexpr int kSize = C::kOutputTileN / 2;  // of a tile; where a pair's second accumulator begins
    Accumulators chunk;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int own = at.in_tile / 2 + e;
      chunk.acc0[e] = acc[own];
      chunk.partner0[e] = partner_of<Pairs, kSize>(acc, 0, at, e);
      chunk.acc1[e] = chunk.partner1[e] = 0;
      if constexpr (C::kPair) {
        chunk.acc1[e] = acc[kSize + own];
        chunk.partner1[e] = partner_of<Pairs, kSize>(acc, kSize, at, e);
      }
    }
    return chunk;
  }
};

// What a program keeps for a tile: its Cols in registers, its Rows in shared memory, and behind them the four warps'
// lines of each reduction down columns.
template <class C>
struct TileVectors {
  float cols[kRowBlocks<C>][kAtLeastOne<C::kCols>][2];
  u32 rows;
  float* shared_rows;

  __device__ TileVectors(u32 base, unsigned char* shared, u32 consumer)
      : rows(base + offset(consumer)), shared_rows(reinterpret_cast<float*>(shared + offset(consumer))) {}

  // The lines of a reduction of a program with `Rows` Rows.
  template <int Rows>
  __device__ __forceinline__ float* lines(int reduction) const {
    return shared_rows + (Rows + reduction * kLines) * C::kOutputTileN;
  }

 private:
  __device__ static u32 offset(u32 consumer) {
    return Layout<C>::kRowVectors + consumer * C::kRows * Layout<C>::kRowVectorBytes;
  }
};

// Sums over whole heads of a thread's two rows.
template <class C, class Program>
using HeadSums = float[Program::kSpans > 0 ? C::kOutputTileN / Program::kSpanHead : 1][kAtLeastOne<Program::kSpans>][2];

// The same for one chunk, with the sums over whole heads.
template <class C, class Program>
struct ChunkVectors {
  const TileVectors<C>& tile;
  const float (&cols)[kAtLeastOne<C::kCols>][2];
  const HeadSums<C, Program>& spans;
  i32 in_tile;
  u32 rows;  // of the thread's first column

  __device__ __forceinline__ ChunkVectors(const TileVectors<C>& of_tile, const HeadSums<C, Program>& sums, int block,
                                          i32 chunk)
      : tile(of_tile),
        cols(of_tile.cols[block]),
        spans(sums),
        in_tile(chunk),
        rows(of_tile.rows + (chunk + lane_id() % 4 * 2) * 4) {}

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
    for (int c = 0; c < 4; ++c) values[c] = shared_load_one(address<Index>(c) + to_partner<Pairs>(at, c) * 4);
  }
  template <int Index, class Pairs>
  __device__ __forceinline__ void pair_row(const Position& at, float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c)  // of two neighbours that pair, one load serves both, and all that hangs on it
      values[c] = c % 2 == 1 && to_first<Pairs>(at, c) == -1
                      ? values[c - 1]
                      : shared_load_one(address<Index>(c) + to_first<Pairs>(at, c) * 4);
  }

  template <int Index>
  __device__ __forceinline__ float span(const Position& at, int e) const {
    return of_head<Program::kSpanHead>(spans, Index, at, e);
  }

  // Where the chunk's results of a reduction down columns belong: the warp's line.
  template <int Index>
  __device__ __forceinline__ float* line() const {
    return tile.template lines<Program::kRows>(Index) + threadIdx.x / 32 % 4 * C::kOutputTileN + in_tile;
  }
};

// The sums over whole heads of one row block: they come before anything that uses them. `row`: the block's first.
template <class C, class Program>
__device__ __forceinline__ void sum_spans(const typename Program::Arguments& arguments, const Tile& tile, i32 row,
                                          const float (&acc)[C::kTileN / 2], const TileVectors<C>& vectors, int block,
                                          HeadSums<C, Program>& spans) {
  for_each_constant<Program::kSpans>([&](auto span) {
    clear_heads(spans, span.value);
#pragma unroll
    for (int chunk = 0; chunk < C::kOutputTileN / 16; ++chunk) {
      const Position at = position_of(arguments, tile, row, chunk * 16, false, false);
      const auto own = Accumulators::of<C, typename Program::TermPairs>(acc, at);
      float terms[8];
      Program::terms(span, arguments, at, ChunkVectors<C, Program>(vectors, spans, block, chunk * 16), own.acc0,
                     own.acc1, own.partner0, own.partner1, terms);
      add_to_heads<Program::kSpanHead>(spans, span.value, at, terms);
    }
    merge_heads(spans, span.value);
  });
}

// Stores the partials of columns of one row block. The consumer's threads meet: before, until each warp has its lines;
// after, until they are read.
template <class C, class Program>
__device__ __forceinline__ void store_columns(const typename Program::Arguments& arguments, const Tile& tile, i32 row,
                                              const Staging<C>& staging, const TileVectors<C>& vectors) {
  const float* lines = vectors.template lines<Program::kRows>(0);
  staging.sync();
  for (i32 in_tile = static_cast<i32>(threadIdx.x % 128); in_tile < C::kOutputTileN; in_tile += 128)
    if (row < arguments.rows && tile.col + in_tile < arguments.cols)
      Program::columns(arguments, row, tile.col + in_tile, lines + in_tile, C::kOutputTileN, kLines * C::kOutputTileN);
  staging.sync();
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
