// A program without a product: each warp takes 16 rows × `Span` columns at a time, group by group and chunk by chunk.
// Whole heads and whole groups of reduced columns lie in one span, and whole heads that are summed in one group.
#pragma once

#include "columns.cuh"
#include "heads.cuh"
#include "pairs.cuh"

namespace coda {

constexpr int kElementwiseThreads = 128;
constexpr int kElementwiseRows = 64;  // of a block: 16 a warp
static_assert(kElementwiseRows == kPartialRows);

// Columns of a group: a head that is summed; where chunks straddle heads, as many heads as end with a chunk. Then the
// loop over them is unrolled, so that which head a column is in is known for most.
template <class Program>
struct Group {
  static constexpr int kHead = Program::kSpans > 0 ? Program::kSpanHead : 64;
  static constexpr int kEven = kHead % 2 == 0 ? 2 : 1, kEight = kHead % 8 == 0 ? 8 : kHead % 4 == 0 ? 4 : kEven;
  static constexpr int kCols = kHead % 16 == 0 ? kHead : kHead * (16 / kEight);
  static constexpr int kHeads = kCols / kHead;
  static constexpr int kUnrolled = kHeads > 1 ? kCols / 16 : 4;
  // Chunks that are read before the first of them is computed: bytes on their way hide how long the way is.
  static constexpr int kArrays = static_cast<int>(sizeof(typename Program::Loads) / sizeof(float[8]));
  static constexpr bool kTurns = Program::Pairs::kAny;  // by sines and cosines, which take registers too
  static constexpr int kRegisters = Program::kSpans > 0 || Program::kColumns > 0 ? 1 : kArrays > 2 || kTurns ? 2 : 4;
  static constexpr int kAhead = kCols % 64 == 0 ? kRegisters : kCols % 32 == 0 && kRegisters > 1 ? 2 : 1;
  static constexpr int kBatches = kHeads > 1 ? kCols / 16 / kAhead : 1;  // of the group, unrolled
};

__device__ __forceinline__ Position in_its_group(Position at, i32 in_group) {
  at.in_tile = in_group;
  return at;
}

// What a warp takes at a time: `Cols` columns. Fours: a thread's four columns of a chunk are neighbours.
template <int Cols, bool Fours>
struct Span {
  static constexpr int kCols = Cols;
  static constexpr bool kFours = Fours;
  // From a chunk's first column to the thread's.
  __device__ __forceinline__ static i32 in_quad() { return static_cast<i32>(lane_id() % 4 * (Fours ? 4 : 2)); }
};

// Vectors of a chunk: Cols were computed for the warp's rows, Rows are computed where they are wanted.
template <class Program, class Span>
struct ElementwiseVectors {
  const typename Program::Arguments& arguments;
  float cols[kAtLeastOne<Program::kCols>][2];
  float spans[Group<Program>::kHeads][kAtLeastOne<Program::kSpans>][2];
  float* lines;  // the warp's, of reductions down columns
  i32 chunk;     // first column of the chunk at hand; columns of its group before it
  i32 in_group;

  template <int Index>
  __device__ __forceinline__ float entry(i32 col) const {
    float kept[kAtLeastOne<Program::kRows>];
    Program::rows(arguments, col, kept);
    return kept[Index];
  }
  __device__ __forceinline__ i32 col(int c) const { return chunk + Span::in_quad() + col_offset(Span::kFours, c); }

  template <int Index>
  __device__ __forceinline__ void row(float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) values[c] = entry<Index>(col(c));
  }
  template <int Index, class Pairs>
  __device__ __forceinline__ void partner_row(const Position& at, float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) values[c] = entry<Index>(col(c) + to_partner<Pairs>(at, c));
  }
  template <int Index, class Pairs>
  __device__ __forceinline__ void pair_row(const Position& at, float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) values[c] = entry<Index>(col(c) + to_first<Pairs>(at, c));
  }
  template <int Index>
  __device__ __forceinline__ float span(const Position& at, int e) const {
    return of_head<Program::kSpanHead>(spans, Index, in_its_group(at, in_group), e);
  }
  // Where the chunk's results of a reduction down columns belong.
  template <int Index>
  __device__ __forceinline__ float* line() const {
    return lines + Index * kLines * Group<Program>::kCols + in_group;
  }
};

// Sums over the heads of the group that begins at `first`, each from the terms that its predecessors are part of.
template <class Program, class Vectors, class PositionOf>
__device__ __forceinline__ void sum_group(const typename Program::Arguments& a, Vectors& vectors, i32 first,
                                          PositionOf position_of) {
  const float none[8] = {};
  for_each_constant<Program::kSpans>([&](auto span) {
    clear_heads(vectors.spans, span.value);
#pragma unroll Group < Program> ::kUnrolled
    for (i32 in_group = 0; in_group < Group<Program>::kCols; in_group += 16) {
      const Position at = position_of(first + in_group);
      vectors.chunk = at.chunk_col;
      vectors.in_group = in_group;
      float terms[8];
      Program::terms(span, a, at, vectors, none, none, none, none, terms);
      add_to_heads<Program::kSpanHead>(vectors.spans, span.value, in_its_group(at, in_group), terms);
    }
    merge_heads(vectors.spans, span.value);
  });
}

// Stores the group's partials of columns. All of the block's threads meet: before, until each warp has its lines;
// after, until they are read.
template <class Program>
__device__ __forceinline__ void store_columns(const typename Program::Arguments& a, const float* lines, i32 row,
                                              i32 col) {
  constexpr int kCols = Group<Program>::kCols;
  __syncthreads();
  for (i32 in_group = static_cast<i32>(threadIdx.x); in_group < kCols; in_group += kElementwiseThreads)
    if (row < a.rows && col + in_group < a.cols)
      Program::columns(a, row, col + in_group, lines + in_group, kCols, kLines * kCols);
  __syncthreads();
}

// The thread's part of a span that begins at (row, col): `row` is the thread's first. Inside: all of the block's 64
// rows and the span's columns exist.
template <class Program, class Span, bool Inside>
__device__ __forceinline__ void run_span(const typename Program::Arguments& a, i32 row, i32 col,
                                         ElementwiseVectors<Program, Span>& vectors, const float* lines) {
  constexpr int kGroup = Group<Program>::kCols, kAhead = Group<Program>::kAhead, kBatch = kAhead * 16;
  const auto position_of = [&](i32 in_tile) {
    return Position{row,     col + in_tile + Span::in_quad(), a.rows, a.cols, col + in_tile,
                    in_tile, in_tile + 16 == Span::kCols,     Inside, Inside, Span::kFours};
  };
  typename Program::Reductions reductions;
  const float none[8] = {};
  float nothing[1][8];
  for (i32 first = 0; first < Span::kCols; first += kGroup) {
    if constexpr (Program::kSpans > 0) sum_group<Program>(a, vectors, first, position_of);
#pragma unroll Group < Program> ::kBatches
    for (i32 batch = 0; batch < kGroup; batch += kBatch) {
      typename Program::Loads loads[kAhead];
#pragma unroll
      for (int c = 0; c < kAhead; ++c) Program::load(a, position_of(first + batch + c * 16), loads[c]);
#pragma unroll
      for (int c = 0; c < kAhead; ++c) {
        const Position at = position_of(first + batch + c * 16);
        vectors.chunk = at.chunk_col;
        vectors.in_group = batch + c * 16;
        Program::chunk(a, at, vectors, none, none, none, none, loads[c], nothing, nothing, reductions);
      }
    }
    if constexpr (Program::kColumns > 0)
      store_columns<Program>(a, lines, row / kElementwiseRows * kElementwiseRows, col + first);
  }
}

// One run of spans out of `runs` in the 64 rows that begin at `first_row`: Cols are computed once for all of them.
template <class Program, class Span>
__device__ __forceinline__ void run_spans(const typename Program::Arguments& a, i32 first_row, i32 run, i32 runs) {
  constexpr int kGroup = Group<Program>::kCols;
  __shared__ float lines[kAtLeastOne<Program::kColumns> * kLines * kGroup];
  const i32 warp = static_cast<i32>(threadIdx.x / 32);
  const i32 row = first_row + warp * 16 + static_cast<i32>(lane_id() / 4);
  ElementwiseVectors<Program, Span> vectors{a, {}, {}, lines + warp * kGroup};
  if constexpr (Program::kCols > 0)
    Program::cols(a, Position{row, 0, a.rows, a.cols, 0, 0, false, false, false, Span::kFours}, vectors.cols);
  const i32 spans = (a.cols + Span::kCols - 1) / Span::kCols, each = (spans + runs - 1) / runs;
  for (i32 span = run * each; span < spans && span < (run + 1) * each; ++span) {
    if (first_row + kElementwiseRows <= a.rows && (span + 1) * Span::kCols <= a.cols)
      run_span<Program, Span, true>(a, row, span * Span::kCols, vectors, lines);
    else
      run_span<Program, Span, false>(a, row, span * Span::kCols, vectors, lines);
  }
}

// Programs side by side. Config::visit calls its body with the program of a segment, its Span and its arguments; a
// block's number counts the runs of all segments within 64 rows.
template <class Config>
__device__ __forceinline__ void run_elementwise(const typename Config::Params& p) {
  i32 runs = 0;
#pragma unroll
  for (int s = 0; s < Config::kSegments; ++s) runs += p.runs[s];
  const i32 row = static_cast<i32>(blockIdx.x / runs) * kElementwiseRows;
  i32 run = static_cast<i32>(blockIdx.x % runs), segment = 0;
  while (run >= p.runs[segment]) run -= p.runs[segment++];
  Config::visit(p, segment, [&](auto program, auto span, const auto& arguments) {
    run_spans<decltype(program), decltype(span)>(arguments, row, run, p.runs[segment]);
  });
}

}  // namespace coda
