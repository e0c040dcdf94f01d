// copy_tile on the CPU, for all blocks.
#pragma once

#include "fibers.cuh"

#define copy_tile copy_tile_of_a_thread
#include "copy_gpu.cuh"
#undef copy_tile

namespace coda {

using KernelParams = CopyParams;

inline void copy_tile(const CopyParams& p) {
  const i64 inner = (p.inner + kCopyTile - 1) / kCopyTile, outer = (p.outer + kCopyTile - 1) / kCopyTile;
  fibers::run_blocks(inner * outer, kCopyThreads, [&] { copy_tile_of_a_thread(p); });
}

}  // namespace coda
