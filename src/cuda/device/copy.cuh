// Copies a strided matrix of 16-bit elements to one whose inner dimension is contiguous: what an operand goes through
// whose base or strides the copy engine cannot take.
#pragma once

#include "ptx.cuh"

namespace coda {

struct CopyParams {
  const u16* from;
  u16* to;
  i64 inner_stride;  // of `from`, in elements; may be 0 or negative
  i64 outer_stride;
  i64 pitch;  // of `to`
  i32 inner;
  i32 outer;
};

constexpr int kCopyTile = 64;
constexpr int kCopyThreads = 256;

// One block a tile of 64 × 64. Read along the source's shorter stride, so that a transposed source is read in lines
// too; the tile passes through shared memory, a column wider so that its columns lie in different banks.
__device__ __forceinline__ void copy_tile(const CopyParams& p) {
  __shared__ u16 tile[kCopyTile][kCopyTile + 2];
  const i32 tiles = (p.inner + kCopyTile - 1) / kCopyTile;
  const i32 first_outer = static_cast<i32>(blockIdx.x / tiles) * kCopyTile;
  const i32 first_inner = static_cast<i32>(blockIdx.x % tiles) * kCopyTile;
  const i64 inner_step = p.inner_stride < 0 ? -p.inner_stride : p.inner_stride;
  const i64 outer_step = p.outer_stride < 0 ? -p.outer_stride : p.outer_stride;
  const bool along_outer = outer_step < inner_step;
  for (int i = threadIdx.x; i < kCopyTile * kCopyTile; i += kCopyThreads) {
    const int fast = i % kCopyTile, slow = i / kCopyTile;
    const int inner = along_outer ? slow : fast, outer = along_outer ? fast : slow;
    if (first_inner + inner < p.inner && first_outer + outer < p.outer)
      tile[outer][inner] = p.from[(first_inner + inner) * p.inner_stride + (first_outer + outer) * p.outer_stride];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kCopyTile * kCopyTile; i += kCopyThreads) {
    const int inner = i % kCopyTile, outer = i / kCopyTile;
    if (first_inner + inner < p.inner && first_outer + outer < p.outer)
      p.to[(first_outer + outer) * p.pitch + first_inner + inner] = tile[outer][inner];
  }
}

}  // namespace coda
