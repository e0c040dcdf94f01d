// A program without a product: each warp takes 16 rows × `Span` columns, chunk by chunk. Whole heads and whole groups
// of reduced columns lie in one span.
#pragma once

#include "pairs.cuh"

namespace coda {

constexpr int kElementwiseThreads = 128;
constexpr int kElementwiseRows = 64;  // of a block: 16 a warp

// Vectors of a chunk: Cols were computed for the warp's rows, Rows are computed where they are wanted.
template <class Program>
struct ElementwiseVectors {
  float cols[Program::kCols > 0 ? Program::kCols : 1][2];
  float rows[4][Program::kRows > 0 ? Program::kRows : 1];

  template <int Index>
  __device__ __forceinline__ void row(float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) values[c] = rows[c][Index];
  }
};

// The thread's part of a span that begins at (row, col): `row` is its own first row.
template <class Program, int Span>
__device__ __forceinline__ void run_span(const typename Program::Arguments& a, i32 row, i32 col) {
  const i32 in_quad = static_cast<i32>(lane_id() % 4 * 2);
  ElementwiseVectors<Program> vectors;
  if constexpr (Program::kCols > 0)
    Program::cols(a, Position{row, col + in_quad, a.rows, a.cols, col, 0, false, false}, vectors.cols);
  typename Program::Reductions reductions;
  const float none[8] = {};
  float nothing[1][8];
#pragma unroll 4
  for (i32 in_tile = 0; in_tile < Span; in_tile += 16) {
    const Position at{row,     col + in_tile + in_quad, a.rows, a.cols, col + in_tile,
                      in_tile, in_tile + 16 == Span,    false};
    if constexpr (Program::kRows > 0)
#pragma unroll
      for (int c = 0; c < 4; ++c) Program::rows(a, global_col(at, c), vectors.rows[c]);
    Program::chunk(a, at, vectors, none, none, none, none, nothing, nothing, reductions);
  }
}

template <class Program, int Span>
__device__ __forceinline__ void run_elementwise(const typename Program::Arguments& a) {
  const i32 spans = (a.cols + Span - 1) / Span;
  const i32 row = static_cast<i32>(blockIdx.x / spans) * kElementwiseRows +
                  static_cast<i32>(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4);
  run_span<Program, Span>(a, row, static_cast<i32>(blockIdx.x % spans) * Span);
}

}  // namespace coda
