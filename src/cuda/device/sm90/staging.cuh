// A consumer's part of shared memory beside the operand rings: sub-tiles of 64 rows × C::kSub columns on their way
// between a program and memory.
#pragma once

#include "sm90/mainloop.cuh"
#include "tile.cuh"

namespace coda {

// A consumer's part of the staging area and its rings.
template <class C>
struct Staging {
  using L = Layout<C>;
  u32 consumer;
  u32 outputs;
  u32 inputs;
  u32 full;
  u32 empty;
  u32 output_slot = 0;
  Ring<kAtLeastOne<C::kInputBuffers>> ring{0};

  __device__ Staging(u32 base, u32 which)
      : consumer(which),
        outputs(base + L::kStaging + which * L::kConsumerStaging),
        inputs(outputs + C::kOutputUnits * C::kOutputBuffers * L::kSubBytes),
        full(base + L::kBarriers + 8 * (2 * C::kStages + which * C::kInputBuffers)),
        empty(full + 8 * kConsumers * C::kInputBuffers) {}

  __device__ __forceinline__ void sync() const { bar_sync(4 + consumer, 128); }
  __device__ __forceinline__ u32 output() const { return outputs + output_slot * C::kOutputUnits * L::kSubBytes; }
};

// Where a thread reads and writes matrices of 16-bit elements in a staged sub-tile.
struct MatrixLane {
  u32 row;
  u32 half;
  __device__ MatrixLane(u32 warp, u32 lane) : row(warp * 16 + lane % 16), half(lane / 16) {}
};

// Staged inputs of one sub-tile, as packed pairs of one chunk: the next, so that its way from shared memory is hidden.
template <class C, class Inputs>
struct InputTiles {
  static constexpr int kChunks = C::kSub / 16;
  const MatrixLane& lane;
  u32 packed[kAtLeastOne<Inputs::kCount>][4];

  __device__ __forceinline__ explicit InputTiles(const MatrixLane& at) : lane(at) {}

  __device__ __forceinline__ void begin(const Staging<C>& staging) {
    static_assert(Inputs::kUnits == Inputs::kCount, "staged inputs have 16-bit elements");
    if constexpr (Inputs::kCount > 0) {
      mbarrier_wait(staging.full + 8 * staging.ring.slot, staging.ring.parity);
      load(staging, 0);
    }
  }

  __device__ __forceinline__ void take(const Staging<C>& staging, int chunk,
                                       float (&values)[kAtLeastOne<Inputs::kCount>][8]) {
    for_each_constant<Inputs::kCount>([&](auto input) {
      using Element = typename ElementAt<decltype(input)::value, Inputs>::Type;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[input.value][2 * i] = Element::low(packed[input.value][i]);
        values[input.value][2 * i + 1] = Element::high(packed[input.value][i]);
      }
    });
    if (chunk + 1 < kChunks) load(staging, chunk + 1);
  }

  // Hands the sub-tile's slot back, after its last chunk.
  __device__ __forceinline__ void end(Staging<C>& staging) const {
    if constexpr (Inputs::kCount > 0) {
      // The arrival alone does not hold back the copy engine's next write until these reads are done: it is of another
      // proxy.
      fence_async_proxy();
      mbarrier_arrive(staging.empty + 8 * staging.ring.slot);
      staging.ring.advance();
    }
  }

 private:
  __device__ __forceinline__ void load(const Staging<C>& staging, int chunk) {
    using L = Layout<C>;
    const u32 from = staging.inputs + staging.ring.slot * C::kInputMaps * L::kSubBytes;
#pragma unroll
    for (int input = 0; input < Inputs::kCount; ++input)
      load_matrix(from + input * L::kSubBytes + staged_offset<C::kSub * kElementBytes>(lane.row, 2 * chunk + lane.half),
                  packed[input]);
  }
};

// Columns of a box of fp32 elements: 128 bytes, the widest swizzle, or the whole sub-tile.
template <class C>
constexpr int kF32BoxCols = C::kSub < 32 ? C::kSub : 32;

// Puts a chunk of one staged output into its sub-tile.
template <class C, class Element>
__device__ __forceinline__ void stage_output(u32 to, int chunk, const float (&values)[8], const MatrixLane& lane) {
  if constexpr (sizeof(typename Element::Storage) == 2) {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = Element::pack(values[2 * i], values[2 * i + 1]);
    store_matrix(to + staged_offset<C::kSub * kElementBytes>(lane.row, 2 * chunk + lane.half), words);
  } else {
    constexpr int kCols = kF32BoxCols<C>;
    const u32 first_row = threadIdx.x / 32 % 4 * 16 + lane_id() / 4, first_col = lane_id() % 4 * 2;
#pragma unroll
    for (int e = 0; e < 8; e += 2) {
      const u32 row = first_row + 8 * row_of(e);
      const u32 col = chunk * 16 % kCols + first_col + col_of(e) / 2 * 8;
      const u32 box = to + chunk * 16 / kCols * (64 * kCols * 4);
      shared_store(box + staged_offset<kCols * 4>(row, col / 4) + col % 4 * 4, values[e], values[e + 1]);
    }
  }
}

// Sends a warp's 16 rows of one staged output's sub-tile to memory.
template <class C, class Element>
__device__ __forceinline__ void send_output(const TensorMap* map, u32 from, u32 warp, i32 row, i32 col) {
  constexpr int kSize = static_cast<int>(sizeof(typename Element::Storage));
  constexpr int kCols = kSize == 2 ? C::kSub : kF32BoxCols<C>;
#pragma unroll
  for (int box = 0; box < C::kSub / kCols; ++box) {
    const u32 at = from + (box * 64 + warp * 16) * kCols * kSize;
    if constexpr (kAdds<Element>) {
      tma_add_f32(map, at, col + box * kCols, row);
    } else {
      tma_store(map, at, col + box * kCols, row);
    }
  }
}

// Staged outputs of one sub-tile. Each warp stages and sends its own 16 rows, so that none waits for the others.
template <class C, class Outputs>
struct OutputTiles {
  using L = Layout<C>;
  const MatrixLane& lane;
  u32 to;

  __device__ __forceinline__ OutputTiles(const Staging<C>& staging, const MatrixLane& at)
      : lane(at), to(staging.output()) {
    if constexpr (C::kPingPong) await_slot();
  }

  __device__ __forceinline__ void put(int chunk, const float (&values)[kAtLeastOne<Outputs::kCount>][8]) const {
    // Not before the first values are there, which hides some of the wait. A ping-pong consumer's wait is hidden
    // anyway, and its accumulators leave no room for those values.
    if (!C::kPingPong && chunk == 0) await_slot();
    for_each_constant<Outputs::kCount>([&](auto output) {
      using At = ElementAt<decltype(output)::value, Outputs>;
      stage_output<C, typename At::Type>(to + At::kUnit * L::kSubBytes, chunk, values[output.value], lane);
    });
  }

  // Waits until the sub-tile's slot was read by the stores that used it last.
  __device__ __forceinline__ static void await_slot() {
    if constexpr (Outputs::kCount > 0) {
      if (lane_id() == 0) tma_store_wait_read<C::kOutputBuffers - 1>();
      __syncwarp();
    }
  }

  // `row` is the first of the sub-tile's 64.
  __device__ __forceinline__ void send(const TensorMap* maps, Staging<C>& staging, u32 warp, i32 row, i32 col) const {
    if constexpr (Outputs::kCount > 0) {
      fence_async_proxy();
      __syncwarp();
      if (lane_id() == 0) {
        for_each_constant<Outputs::kCount>([&](auto output) {
          using At = ElementAt<decltype(output)::value, Outputs>;
          send_output<C, typename At::Type>(maps + output.value, to + At::kUnit * L::kSubBytes, warp,
                                            row + static_cast<i32>(warp * 16), col);
        });
        tma_store_commit();
      }
      staging.output_slot = (staging.output_slot + 1) % C::kOutputBuffers;
    }
  }
};

}  // namespace coda
