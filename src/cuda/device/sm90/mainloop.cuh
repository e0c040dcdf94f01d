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

#include "sm90/tiles.cuh"
#include "sm90/wgmma.cuh"

namespace coda {

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
      const KBlocks<C> blocks(p, part, raster.rank);
      for (i32 block = blocks.first; block < blocks.last; ++block) {
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
        if constexpr (C::kInputMaps > 0) shared_count_up(base + L::kProgress);
      }
    }
  }
  // A block must not leave while a peer may still arrive at its barriers: wait until every slot was released.
  if constexpr (kMulticast)
    for (int i = 0; i < C::kStages; ++i, ring.advance()) mbarrier_wait_cluster(empty + 8 * ring.slot, ring.parity);
}

// Waits until `k_blocks` have been asked for, counted from the block's start. Counters may wrap.
__device__ __forceinline__ void await_progress(u32 progress, u32 k_blocks) {
  while (static_cast<i32>(shared_count(progress) - k_blocks) < 0) sleep_for(200);
}

// Tile inputs of one consumer, sub-tile by sub-tile in the order its epilogue takes them. Those that find no free slot
// yet are brought into L2, whose way they then go under the product. They are spread over the product's k-blocks: all
// at once they hold up the operands, which arrive just in time.
template <class C>
__device__ void produce_inputs(const typename C::Params& p, u32 base, u32 consumer) {
  using L = Layout<C>;
  constexpr int kSubs = C::kOutputTileN / C::kSub;
  const u32 full = base + L::kBarriers + 8 * (2 * C::kStages + consumer * C::kInputBuffers);
  const u32 empty = full + 8 * kConsumers * C::kInputBuffers;
  const u32 staging =
      base + L::kStaging + consumer * L::kConsumerStaging + C::kOutputUnits * C::kOutputBuffers * L::kSubBytes;
  constexpr int kSteps = kRowBlocks<C> * kSubs, kAtOnce = kSteps < C::kInputBuffers ? kSteps : C::kInputBuffers;
  Ring<C::kInputBuffers> ring(1);
  Raster<C> raster(p);
  Tile tile;
  const u32 k_blocks = KBlocks<C>::count(p, raster.rank), stride = k_blocks / (kSteps + 1);
  u32 begun = 0;  // k-blocks of the tiles before
  for (u32 turn = 0; raster.take(tile); ++turn, begun += k_blocks) {
    const int count = C::staged_inputs(tile.segment);
    if (!owns<C>(consumer, turn, raster.rank) || count == 0) continue;
    const TensorMap* maps = &p.inputs[tile.segment * C::kInputMaps];
    tile.row += consumer_row<C>(consumer);
    const auto pace = [&](int step) { await_progress(base + L::kProgress, begun + stride * (step + 1)); };
    const auto load = [&](int step) {
      mbarrier_wait(empty + 8 * ring.slot, ring.parity);
      mbarrier_expect(full + 8 * ring.slot, count * L::kSubBytes);
      for (int input = 0; input < count; ++input)
        tma_load(staging + (ring.slot * C::kInputMaps + input) * L::kSubBytes, maps + input, full + 8 * ring.slot,
                 tile.col + step % kSubs * C::kSub, tile.row + step / kSubs * 64);
      ring.advance();
    };
    // Loops as they stand: unrolled, they would need more registers than a producer has.
#pragma unroll 1
    for (int step = 0; step < kAtOnce; ++step) {
      pace(step);
      load(step);
    }
#pragma unroll 1
    for (int step = kAtOnce; step < kSteps; ++step) {
      pace(step);
      for (int input = 0; input < count; ++input)
        tma_prefetch(maps + input, tile.col + step % kSubs * C::kSub, tile.row + step / kSubs * 64);
    }
#pragma unroll 1
    for (int step = kAtOnce; step < kSteps; ++step) load(step);
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
