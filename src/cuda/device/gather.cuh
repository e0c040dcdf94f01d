// Rows of a table, by number. A block takes one row.
#pragma once

#include "tile.cuh"

namespace coda {

struct GatherParams {
  Matrix table;
  Matrix out;
  const i64* numbers;  // one a row of `out`, each a row of the table
  i32 rows;
  i32 cols;
};

constexpr int kGatherThreads = 256;

template <class Element>
__device__ __forceinline__ void run_gather(const GatherParams& p) {
  const i64 row = blockIdx.x;
  const i64 from = p.numbers[row];
  for (i32 col = threadIdx.x; col < p.cols; col += kGatherThreads)
    *element<Element>(p.out, row, col) = *element<Element>(p.table, from, col);
}

}  // namespace coda
