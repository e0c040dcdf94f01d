// What is whose in a kernel of sm_90a: shared memory, the slots of rings, the walk over the output's tiles, their
// k-blocks and the consumers' rows.
#pragma once

#include "element.cuh"
#include "ptx.cuh"

namespace coda {

constexpr int kBlockK = 64;       // elements of K a stage: 128 bytes, the width of the swizzle
constexpr int kElementBytes = 2;  // bf16 or f16
constexpr int kConsumers = 2;
constexpr int kThreads = 128 * (1 + kConsumers);
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;  // 128·40 + 256·232 = 64,512 of 65,536

// Where things lie in shared memory, in bytes from its start, which is aligned to 1024.
template <class C>
struct Layout {
  static constexpr int kABytes = C::kTileM * kBlockK * kElementBytes;
  static constexpr int kBBytes = C::kTileN * kBlockK * kElementBytes;
  static constexpr int kStageBytes = kABytes + kBBytes;
  static constexpr int kSubBytes = 64 * C::kSub * kElementBytes;
  static constexpr int kConsumerStaging =
      kSubBytes * (C::kOutputUnits * C::kOutputBuffers + C::kInputMaps * C::kInputBuffers);
  static constexpr int kA = 0;
  static constexpr int kB = C::kStages * kABytes;
  static constexpr int kStaging = C::kStages * kStageBytes;
  // Rows of a program, fp32, for the columns of a consumer's tile, and four lines of them for each reduction down
  // columns
  static constexpr int kRowVectorBytes = C::kOutputTileN * 4;
  static constexpr int kRowVectors = kStaging + kConsumers * kConsumerStaging;
  static constexpr int kBarriers = kRowVectors + kConsumers * C::kRows * kRowVectorBytes;
  // full and empty of each operand stage, full and empty of each input slot, and split-K's two
  static constexpr int kSumBarriers = kBarriers + 8 * (2 * C::kStages + 2 * kConsumers * C::kInputBuffers);
  static constexpr int kBarrierCount = 2 * C::kStages + 2 * kConsumers * C::kInputBuffers + (C::kSplitK > 1 ? 2 : 0);
  // k-blocks the operands' producer has asked for; only tile inputs are paced by it
  static constexpr int kProgress = kBarriers + 8 * kBarrierCount;
  static constexpr int kBytes = kProgress + (C::kInputMaps > 0 ? 8 : 0);
};

// Rows of a tile one consumer owns, in blocks of 64.
template <class C>
constexpr int kRowBlocks = (C::kPingPong ? C::kTileM : C::kTileM / kConsumers) / 64;

// Position in a ring of `Stages` slots. A consumer starts with parity 0; a producer with 1, so that its first waits
// find every slot free.
template <int Stages>
struct Ring {
  u32 slot;
  u32 parity;
  __device__ explicit Ring(u32 first_parity) : slot(0), parity(first_parity) {}
  __device__ void advance(u32 steps = 1) {
    slot += steps;
    parity ^= (slot / Stages) & 1;
    slot %= Stages;
  }
};

struct Tile {
  i32 segment;
  i32 row;  // first row and column inside the segment
  i32 col;
};

// Walks the tiles of this block: clusters take cluster-sized tiles in groups of `raster_group` rows, so that a wave
// reuses few operand panels in L2.
template <class C>
struct Raster {
  static constexpr i32 kClusterSize = C::kClusterM * C::kClusterN * C::kSplitK;
  const typename C::Params& p;
  u32 rank;
  i32 next;
  i32 step;
  i32 count;

  __device__ explicit Raster(const typename C::Params& params)
      : p(params),
        rank(kClusterSize > 1 ? cluster_rank() : 0),
        next(blockIdx.x / kClusterSize),
        step(gridDim.x / kClusterSize),
        count(params.cluster_rows * params.cluster_cols) {}

  __device__ bool take(Tile& tile) {
    if (next >= count) return false;
    tile = at(next);
    next += step;
    return true;
  }

  __device__ Tile at(i32 index) const {
    const i32 per_group = p.raster_group * p.cluster_cols;
    const i32 group = index / per_group;
    const i32 first = group * p.raster_group;
    const i32 rows = min(p.raster_group, p.cluster_rows - first);
    const i32 inside = index - group * per_group;
    i32 m = first + inside % rows;
    i32 n = inside / rows;
    i32 segment = 0;
    if (C::kSegments > 1) {
      i32& along = C::kSegmentsAlongN ? n : m;
      while (segment + 1 < C::kSegments && along >= p.segment_tiles[segment]) along -= p.segment_tiles[segment++];
    }
    const i32 in_m = C::kClusterM > 1 ? static_cast<i32>(rank) : 0;
    const i32 in_n = C::kClusterN > 1 ? static_cast<i32>(rank) : 0;
    return {segment, (m * C::kClusterM + in_m) * C::kTileM, (n * C::kClusterN + in_n) * C::kOutputTileN};
  }
};

// K-blocks this block multiplies for each of its tiles: `first` to `last` of one part of K.
template <class C>
struct KBlocks {
  i32 first = 0;
  i32 last;

  __device__ __forceinline__ KBlocks(const typename C::Params& p, int part, u32 rank) : last(p.k_blocks[part]) {
    if constexpr (C::kSplitK > 1) {
      const i32 all = last;
      first = all * static_cast<i32>(rank) / C::kSplitK;
      last = all * static_cast<i32>(rank + 1) / C::kSplitK;
    }
  }

  // Of all parts.
  __device__ __forceinline__ static i32 count(const typename C::Params& p, u32 rank) {
    i32 count = 0;
    for (int part = 0; part < C::kKParts; ++part) {
      const KBlocks blocks(p, part, rank);
      count += blocks.last - blocks.first;
    }
    return count;
  }
};

// Row of the first of a consumer's row blocks inside its tile.
template <class C>
__device__ __forceinline__ i32 consumer_row(u32 consumer) {
  return C::kPingPong ? 0 : static_cast<i32>(consumer) * 64 * kRowBlocks<C>;
}

// True where the consumer runs the epilogue of the tile numbered `turn` by this block.
template <class C>
__device__ __forceinline__ bool owns(u32 consumer, u32 turn, u32 rank) {
  if (C::kPingPong) return (turn & 1) == consumer;
  return C::kSplitK == 1 || consumer == rank;
}

}  // namespace coda
