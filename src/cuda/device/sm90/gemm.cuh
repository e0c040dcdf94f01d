// A kernel of sm_90a: the three roles and what joins them. Each emitted kernel includes this file and calls run_gemm.
#pragma once

#include "sm90/epilogue.cuh"

namespace coda {

// Barriers 2 and 3 of the block hand the tensor cores from one ping-pong consumer to the other.
__device__ __forceinline__ u32 turn_barrier(u32 consumer) { return 2 + consumer; }

template <class C>
__device__ void consume(const typename C::Params& p, unsigned char* shared, u32 base, u32 consumer) {
  const u32 warp = uniform(threadIdx.x / 32 % 4);
  float acc[kRowBlocks<C>][C::kTileN / 2];
  Ring<C::kStages> ring(0);
  Staging<C> staging(base, consumer);
  TileVectors<C> vectors(base, shared, consumer);
  Raster<C> raster(p);
  Tile tile;
  for (u32 turn = 0; raster.take(tile); ++turn) {
    const i32 k_blocks = KBlocks<C>::count(p, raster.rank);
    if constexpr (C::kPingPong) {
      if ((turn & 1) != consumer) {  // the other's tile: its k-blocks pass by
        ring.advance(k_blocks);
        continue;
      }
    }
    const auto begin = [&] {
      if (owns<C>(consumer, turn, raster.rank))
        C::visit(p, tile.segment, [&](auto program, const auto& arguments) {
          begin_tile<C, decltype(program)>(arguments, tile, staging, vectors);
        });
    };
    // Vectors are made under a product: the other consumer's, or the first k-block of their own. Not where one of the
    // consumers makes none: ptxas lets no product run on under such a branch.
    if constexpr (C::kPingPong || C::kSplitK > 1 || !C::kMakesVectors) {
      begin();
      if (C::kPingPong && turn > 0) bar_sync(turn_barrier(consumer), 256);
      multiply<C>(acc, base, consumer, warp, k_blocks, ring, NoWork());
    } else {
      multiply<C>(acc, base, consumer, warp, k_blocks, ring, begin);
    }
    if constexpr (C::kPingPong)
      if (raster.next < raster.count) bar_arrive(turn_barrier(1 - consumer), 256);
    if constexpr (C::kSplitK > 1) {
      sum_split_k<C>(acc, base, consumer, raster.rank);
      if (consumer != raster.rank) continue;
    }
    C::visit(p, tile.segment, [&](auto program, const auto& arguments) {
      run_epilogue<C, decltype(program)>(p, arguments, tile, acc, staging, vectors);
    });
  }
  if (lane_id() == 0) tma_store_wait_all();
}

template <class C>
__device__ __forceinline__ void run_gemm(const typename C::Params& p) {
  using L = Layout<C>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const u32 base = shared_address(shared);
  const u32 warpgroup = uniform(threadIdx.x / 128), warp = uniform(threadIdx.x / 32 % 4);
  // The maps come first in the parameters, one after the other.
  constexpr u32 kMaps = (sizeof p.a + sizeof p.b + sizeof p.outputs + sizeof p.inputs) / sizeof(TensorMap);
  if (threadIdx.x < kMaps) prefetch_map(p.a + threadIdx.x);
  if (threadIdx.x == 0) {
    const u32 full = base + L::kBarriers, empty = full + 8 * C::kStages, inputs = empty + 8 * C::kStages;
    constexpr u32 kArrivals = (C::kPingPong ? 1 : kConsumers) * C::kClusterM * C::kClusterN;
    for (int i = 0; i < C::kStages; ++i) {
      mbarrier_init(full + 8 * i, 1);
      mbarrier_init(empty + 8 * i, kArrivals);
    }
    for (int i = 0; i < kConsumers * C::kInputBuffers; ++i) {
      mbarrier_init(inputs + 8 * i, 1);
      mbarrier_init(inputs + 8 * (kConsumers * C::kInputBuffers + i), 128);
    }
    if constexpr (C::kSplitK > 1) {
      mbarrier_init(base + L::kSumBarriers, 128 * kConsumers);
      mbarrier_init(base + L::kSumBarriers + 8, 128);
    }
    if constexpr (C::kInputMaps > 0) shared_store(base + L::kProgress, u32{0});
    mbarrier_init_fence();
  }
  constexpr bool kCluster = Raster<C>::kClusterSize > 1;
  if constexpr (kCluster) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  if (warpgroup == 0) {
    give_registers<kProducerRegisters>();
    if (lane_id() == 0) {
      if (warp == 0) produce_operands<C>(p, base);
      if constexpr (C::kInputMaps > 0)
        if (warp == 1 || warp == 2) produce_inputs<C>(p, base, warp - 1);
    }
  } else {
    take_registers<kConsumerRegisters>();
    consume<C>(p, shared, base, warpgroup - 1);
  }
  // Each block has written into the other's shared memory: none leaves before both are done.
  if constexpr (C::kSplitK > 1) cluster_sync_diverged();
}

}  // namespace coda
