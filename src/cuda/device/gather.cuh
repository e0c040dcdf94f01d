// Rows of a table, by number: read, and added to.
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

// A block takes one row.
template <class Element>
__device__ __forceinline__ void run_gather(const GatherParams& p) {
  const i64 row = blockIdx.x;
  const i64 from = p.numbers[row];
  for (i32 col = threadIdx.x; col < p.cols; col += kGatherThreads)
    *element<Element>(p.out, row, col) = *element<Element>(p.table, from, col);
}

// Rows of `from` are grouped by the row of `into` they are added to: group g has rows order[starts[g]] … and goes to
// row numbers[g].
struct AddRowsParams {
  Matrix from;
  Matrix into;
  const i64* order;
  const i64* starts;  // groups + 1
  const i64* numbers;
  i32 groups;
  i32 cols;
};

// A block takes columns of one group, a thread one of them: it adds the rows up in their order, in double, and rounds
// once.
template <class From, class Into>
__device__ __forceinline__ void run_add_rows(const AddRowsParams& p) {
  const i32 col = static_cast<i32>(blockIdx.x) / p.groups * kGatherThreads + static_cast<i32>(threadIdx.x);
  const i32 group = static_cast<i32>(blockIdx.x) % p.groups;
  if (col >= p.cols) return;
  auto* const to = element<Into>(p.into, p.numbers[group], col);
  double sum = Into::widen(*to);
  const i64 stop = p.starts[group + 1];
#pragma unroll 8
  for (i64 i = p.starts[group]; i < stop; ++i) sum += From::widen(*element<From>(p.from, p.order[i], col));
  *to = narrow_once<Into>(sum);
}

}  // namespace coda
