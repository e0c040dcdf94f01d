// The one main loop of every sm_90a kernel: a persistent, warp-specialised matrix product whose accumulator is handed,
// sub-tile by sub-tile, to an epilogue.
//
//   warpgroup 0   producers: warp 0 fills the operand ring (A and B, 64 of K a stage), warps 1 and 2 fill the ring of
//                 tile inputs of consumers 0 and 1
//   warpgroup 1,2 consumers: WGMMA into registers, then the epilogue, staged through shared memory to TMA stores
//
// Cooperative: both consumers share a tile, half its rows each. Ping-pong: each has its own tile, and one's epilogue
// runs under the other's product. Config (written into each kernel) chooses; nothing here depends on the program.
#pragma once

#include "element.cuh"
#include "ptx.cuh"
#include "sm90/wgmma.cuh"

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
  // Rows of a program, fp32, for the columns of a consumer's tile.
  static constexpr int kRowVectorBytes = C::kOutputTileN * 4;
  static constexpr int kRowVectors = kStaging + kConsumers * kConsumerStaging;
  static constexpr int kBarriers = kRowVectors + kConsumers * C::kRows * kRowVectorBytes;
  // full and empty of each operand stage, full and empty of each input slot, and split-K's two
  static constexpr int kSumBarriers = kBarriers + 8 * (2 * C::kStages + 2 * kConsumers * C::kInputBuffers);
  static constexpr int kBarrierCount = 2 * C::kStages + 2 * kConsumers * C::kInputBuffers + (C::kSplitK > 1 ? 2 : 0);
  static constexpr int kBytes = kBarriers + 8 * kBarrierCount;
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

// Sends `Rows` rows (or columns) of an operand, from `first` on, to `to`; `Peers` blocks share the work by multicast.
template <bool KMajor, int Rows, int Peers>
__device__ __forceinline__ void load_operand(u32 to, const TensorMap* map, u32 barrier, i32 first, i32 k, u32 rank) {
  constexpr u16 kAll = static_cast<u16>((1 << Peers) - 1);
  const auto box = [&](u32 at, i32 inner, i32 outer) {
    if constexpr (Peers > 1) {
      tma_load_multicast(at, map, barrier, inner, outer, kAll);
    } else {
      tma_load(at, map, barrier, inner, outer);
    }
  };
  const u32 part = Peers > 1 ? rank : 0;
  if constexpr (KMajor) {
    constexpr int kShare = Rows / Peers;
    box(to + part * kShare * kBlockK * kElementBytes, k, first + static_cast<i32>(part) * kShare);
  } else {
    static_assert(Rows % 64 == 0, "an MN-major operand comes in boxes of 64");
#pragma unroll
    for (int i = 0; i < Rows / 64; ++i)
      if (i % Peers == part) box(to + i * 64 * kBlockK * kElementBytes, first + i * 64, k);
  }
}

// Shared-memory matrix descriptor of a 128-byte-swizzled operand. K-major: 8 rows every 1024 bytes. MN-major: boxes of
// 64 × 64, the next 64 of M or N 8192 bytes on, the next 8 of K 1024 bytes on.
template <bool KMajor>
__device__ __forceinline__ u64 matrix_descriptor(u32 address) {
  constexpr u64 kLeading = KMajor ? 1 : 8192 / 16;
  constexpr u64 kStride = 1024 / 16;
  constexpr u64 kSwizzle128 = 1;
  return static_cast<u64>((address & 0x3ffff) >> 4) | kLeading << 16 | kStride << 32 | kSwizzle128 << 62;
}

// Descriptor units (16 bytes) from one k16 step to the next.
template <bool KMajor>
constexpr u64 kDescriptorStep = KMajor ? 16 * kElementBytes / 16 : 16 * 128 / 16;

// Bytes from one block of 64 rows of an operand to the next.
template <bool KMajor>
constexpr u32 kRowBlockBytes = 64 * kBlockK * kElementBytes;

template <class C>
__device__ void produce_operands(const typename C::Params& p, u32 base) {
  using L = Layout<C>;
  constexpr int kPeersOfA = C::kClusterN, kPeersOfB = C::kClusterM;
  constexpr bool kMulticast = kPeersOfA * kPeersOfB > 1;
  const u32 full = base + L::kBarriers, empty = full + 8 * C::kStages;
  Ring<C::kStages> ring(1);
  Raster<C> raster(p);
  Tile tile;
  while (raster.take(tile)) {
    for (int part = 0; part < C::kKParts; ++part) {
      const TensorMap* a = &p.a[C::kKParts > 1 ? part : C::kSegmentsAlongN ? 0 : tile.segment];
      const TensorMap* b = &p.b[C::kKParts > 1 ? part : C::kSegmentsAlongN ? tile.segment : 0];
      i32 first = 0, last = p.k_blocks[part];
      if constexpr (C::kSplitK > 1) {
        first = last * static_cast<i32>(raster.rank) / C::kSplitK;
        last = last * static_cast<i32>(raster.rank + 1) / C::kSplitK;
      }
      for (i32 block = first; block < last; ++block) {
        const u32 full_slot = full + 8 * ring.slot, empty_slot = empty + 8 * ring.slot;
        if constexpr (kMulticast) {
          mbarrier_wait_cluster(empty_slot, ring.parity);
        } else {
          mbarrier_wait(empty_slot, ring.parity);
        }
        mbarrier_expect(full_slot, L::kStageBytes);
        const u32 to_a = base + L::kA + ring.slot * L::kABytes, to_b = base + L::kB + ring.slot * L::kBBytes;
        const i32 k = block * kBlockK;
        load_operand<C::kAMajorK, C::kTileM, kPeersOfA>(to_a, a, full_slot, tile.row, k, raster.rank);
        if constexpr (C::kPair) {
          constexpr int kHalf = C::kTileN / 2;
          load_operand<C::kBMajorK, kHalf, kPeersOfB>(to_b, &p.b[0], full_slot, tile.col, k, raster.rank);
          load_operand<C::kBMajorK, kHalf, kPeersOfB>(to_b + L::kBBytes / 2, &p.b[1], full_slot, tile.col, k,
                                                      raster.rank);
        } else {
          load_operand<C::kBMajorK, C::kTileN, kPeersOfB>(to_b, b, full_slot, tile.col, k, raster.rank);
        }
        ring.advance();
      }
    }
  }
  // A block must not leave while a peer may still arrive at its barriers: wait until every slot was released.
  if constexpr (kMulticast)
    for (int i = 0; i < C::kStages; ++i, ring.advance()) mbarrier_wait_cluster(empty + 8 * ring.slot, ring.parity);
}

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

// Tile inputs of one consumer, sub-tile by sub-tile in the order its epilogue takes them. Those that find no free slot
// yet are brought into L2, whose way they then go under the product.
template <class C>
__device__ void produce_inputs(const typename C::Params& p, u32 base, u32 consumer) {
  using L = Layout<C>;
  constexpr int kSubs = C::kOutputTileN / C::kSub;
  const u32 full = base + L::kBarriers + 8 * (2 * C::kStages + consumer * C::kInputBuffers);
  const u32 empty = full + 8 * kConsumers * C::kInputBuffers;
  const u32 staging =
      base + L::kStaging + consumer * L::kConsumerStaging + C::kOutputUnits * C::kOutputBuffers * L::kSubBytes;
  Ring<C::kInputBuffers> ring(1);
  Raster<C> raster(p);
  Tile tile;
  for (u32 turn = 0; raster.take(tile); ++turn) {
    const int count = C::staged_inputs(tile.segment);
    if (!owns<C>(consumer, turn, raster.rank) || count == 0) continue;
    const i32 row = tile.row + consumer_row<C>(consumer);
    const TensorMap* maps = &p.inputs[tile.segment * C::kInputMaps];
    for (int step = 0; step < kRowBlocks<C> * kSubs; ++step) {
      const i32 box_row = row + step / kSubs * 64, box_col = tile.col + step % kSubs * C::kSub;
      if (step == C::kInputBuffers)
        for (int later = step; later < kRowBlocks<C> * kSubs; ++later)
          for (int input = 0; input < count; ++input)
            tma_prefetch(maps + input, tile.col + later % kSubs * C::kSub, row + later / kSubs * 64);
      mbarrier_wait(empty + 8 * ring.slot, ring.parity);
      mbarrier_expect(full + 8 * ring.slot, count * L::kSubBytes);
      for (int input = 0; input < count; ++input)
        tma_load(staging + (ring.slot * C::kInputMaps + input) * L::kSubBytes, maps + input, full + 8 * ring.slot,
                 box_col, box_row);
      ring.advance();
    }
  }
}

struct NoWork {
  __device__ __forceinline__ void operator()() const {}
};

// The product of one tile into `acc`. Calls meanwhile() once, while the tensor cores are at the first k-block.
template <class C, class Meanwhile>
__device__ __forceinline__ void multiply(float (&acc)[kRowBlocks<C>][C::kTileN / 2], u32 base, u32 consumer, u32 warp,
                                         i32 k_blocks, Ring<C::kStages>& ring, Meanwhile meanwhile) {
  using L = Layout<C>;
  constexpr bool kWorks = !kSame<Meanwhile, NoWork>;
  constexpr u32 kPeers = C::kClusterM * C::kClusterN;
  const u32 full = base + L::kBarriers, empty = full + 8 * C::kStages;
  const u32 row_offset = C::kPingPong ? 0 : consumer * kRowBlocks<C> * kRowBlockBytes<C::kAMajorK>;
  const auto release = [&](u32 slot) {
    if (warp != 0 || lane_id() >= kPeers) return;
    if constexpr (kPeers > 1) {
      mbarrier_arrive_peer(empty + 8 * slot, lane_id());
    } else {
      mbarrier_arrive(empty + 8 * slot);
    }
  };
  const auto issue = [&](bool adds) {
    mbarrier_wait(full + 8 * ring.slot, ring.parity);
    const u64 a = matrix_descriptor<C::kAMajorK>(base + L::kA + ring.slot * L::kABytes + row_offset);
    const u64 b = matrix_descriptor<C::kBMajorK>(base + L::kB + ring.slot * L::kBBytes);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kBlockK / 16; ++k) {
#pragma unroll
      for (int i = 0; i < kRowBlocks<C>; ++i)
        Wgmma<C::kTileN>::template multiply<!C::kAMajorK, !C::kBMajorK>(
            acc[i], a + i * kRowBlockBytes<C::kAMajorK> / 16 + k * kDescriptorStep<C::kAMajorK>,
            b + k * kDescriptorStep<C::kBMajorK>, adds || k != 0);
    }
    wgmma_commit();
  };
  if (k_blocks == 0) {
#pragma unroll
    for (int i = 0; i < kRowBlocks<C>; ++i)
#pragma unroll
      for (int v = 0; v < C::kTileN / 2; ++v) acc[i][v] = 0;
    if constexpr (kWorks) {
      meanwhile();
      return;  // not to the end, where ptxas would see two ways to the accumulators and let no product run on
    }
  }
  u32 previous = 0;
  i32 block = 0;
  if constexpr (kWorks) {  // only then: ptxas waits once more between a first block and the others
    issue(false);
    meanwhile();
    previous = ring.slot;
    ring.advance();
    block = 1;
  }
  for (; block < k_blocks; ++block) {
    issue(block > 0);
    wgmma_wait<1>();
    if (block > 0) release(previous);
    previous = ring.slot;
    ring.advance();
  }
  wgmma_wait<0>();
  if (k_blocks > 0) release(previous);
}

// Byte offset of 16-byte chunk `chunk` of row `row` in a staged box of `RowBytes` a row, as the TMA swizzle of that
// width places it.
template <int RowBytes>
__device__ __forceinline__ u32 staged_offset(u32 row, u32 chunk) {
  constexpr u32 kChunks = RowBytes / 16;  // 8, 4 or 2
  const u32 swizzle = kChunks == 8 ? row : kChunks == 4 ? row / 2 : row / 4;
  return row * RowBytes + ((chunk ^ (swizzle % kChunks)) * 16);
}

// Sum of the two halves of K, each handled by one block of a cluster: consumer 1 − rank hands its rows to the peer,
// consumer `rank` adds what the peer hands over. Addition of two is commutative, so the order is fixed. The operand
// rings, free by then, carry the rows; each block has one tile, so nothing refills them.
template <class C>
__device__ __forceinline__ void sum_split_k(float (&acc)[kRowBlocks<C>][C::kTileN / 2], u32 base, u32 consumer,
                                            u32 rank) {
  using L = Layout<C>;
  static_assert(C::kSplitK == 2 && !C::kPingPong && C::kClusterM * C::kClusterN == 1 && C::kKParts == 1);
  constexpr int kVectors = C::kTileN / 8;
  static_assert(kRowBlocks<C> * kVectors * 128 * 16 <= L::kStaging, "the rows fit the operand rings");
  const u32 peer_is_free = base + L::kSumBarriers, sum_is_here = peer_is_free + 8;
  const u32 mine = (threadIdx.x % 128) * 16, peer = 1 - rank;
  mbarrier_arrive_peer_release(peer_is_free, peer);
  if (consumer != rank) {
    mbarrier_wait_cluster(peer_is_free, 0);
    const u32 to = peer_address(base, peer) + mine;
#pragma unroll
    for (int i = 0; i < kRowBlocks<C>; ++i)
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        peer_store(to + (i * kVectors + v) * 2048,
                   make_float4(acc[i][4 * v], acc[i][4 * v + 1], acc[i][4 * v + 2], acc[i][4 * v + 3]));
    mbarrier_arrive_peer_release(sum_is_here, peer);
    return;
  }
  mbarrier_wait_cluster(sum_is_here, 0);
#pragma unroll
  for (int i = 0; i < kRowBlocks<C>; ++i)
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const float4 other = shared_load(base + mine + (i * kVectors + v) * 2048);
      acc[i][4 * v] += other.x;
      acc[i][4 * v + 1] += other.y;
      acc[i][4 * v + 2] += other.z;
      acc[i][4 * v + 3] += other.w;
    }
}

}  // namespace coda
