// The frame round a program: sub-tiles of 64 rows × C::kSub columns of the accumulator meet their staged inputs, the
// program's chunk function (tile.cuh tells what a chunk is), and their staged outputs.
#pragma once

#include "math.cuh"
#include "pairs.cuh"
#include "reduce.cuh"
#include "sm90/mainloop.cuh"
#include "tile.cuh"

namespace coda {

// An array length that C++ allows where there is nothing.
template <int Count>
constexpr int kAtLeastOne = Count > 0 ? Count : 1;

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

// What a program keeps for a tile: its Cols in registers, its Rows in shared memory.
template <class C>
struct TileVectors {
  float cols[kRowBlocks<C>][kAtLeastOne<C::kCols>][2];
  u32 rows;

  __device__ TileVectors(u32 base, u32 consumer)
      : rows(base + Layout<C>::kRowVectors + consumer * C::kRows * Layout<C>::kRowVectorBytes) {}
};

// Sums over whole heads of a thread's two rows.
template <class C, class Program>
using HeadSums = float[Program::kSpans > 0 ? C::kOutputTileN / Program::kSpanHead : 1][kAtLeastOne<Program::kSpans>][2];

// The same for one chunk, with the sums over whole heads.
template <class C, class Program>
struct ChunkVectors {
  const float (&cols)[kAtLeastOne<C::kCols>][2];
  const HeadSums<C, Program>& spans;
  u32 rows;  // of the thread's first column

  template <int Index>
  __device__ __forceinline__ u32 address(int c) const {
    return rows + Index * Layout<C>::kRowVectorBytes + c / 2 * 32 + c % 2 * 4;
  }

  // The entries of the thread's four columns.
  template <int Index>
  __device__ __forceinline__ void row(float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; c += 2) shared_load(address<Index>(c), values[c], values[c + 1]);
  }

  // Those of their partners, and those of the pairs they are in, which are kept at a pair's first column.
  template <int Index, class Pairs>
  __device__ __forceinline__ void partner_row(const Position& at, float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) values[c] = shared_load_one(address<Index>(c) + Pairs::to_partner(at, c) * 4);
  }
  template <int Index, class Pairs>
  __device__ __forceinline__ void pair_row(const Position& at, float (&values)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c)  // of two neighbours that pair, one load serves both, and all that hangs on it
      values[c] = c % 2 == 1 && Pairs::to_first(at, c) == -1
                      ? values[c - 1]
                      : shared_load_one(address<Index>(c) + Pairs::to_first(at, c) * 4);
  }

  template <int Index>
  __device__ __forceinline__ float span(const Position& at, int e) const {
    return spans[octet_of(at, col_of(e)) / Program::kSpanHead][Index][row_of(e)];
  }
};

// Element e's partner among the accumulators of a row block, at `own`; itself where there is none.
template <class Pairs>
__device__ __forceinline__ int partner_of(int own, i32 in_tile, int e) {
  if constexpr (Pairs::kAny) {
    return own + Pairs::accumulators(in_tile + e / 4 * 8, e);
  } else {
    return own;
  }
}

// The sums over whole heads of one row block: they come before anything that uses them.
template <class C, class Program>
__device__ __forceinline__ void sum_spans(const typename Program::Arguments& arguments, const Position& first,
                                          const float (&acc)[C::kTileN / 2], const TileVectors<C>& vectors, int block,
                                          HeadSums<C, Program>& spans) {
  constexpr int kHeads = C::kOutputTileN / Program::kSpanHead;
#pragma unroll
  for (int head = 0; head < kHeads; ++head)
#pragma unroll
    for (int i = 0; i < Program::kSpans; ++i) spans[head][i][0] = spans[head][i][1] = 0.f;
  const u32 in_quad = lane_id() % 4 * 2;
#pragma unroll
  for (int chunk = 0; chunk < C::kOutputTileN / 16; ++chunk) {
    float acc0[8], acc1[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      acc0[e] = acc[chunk * 8 + e];
      acc1[e] = C::kPair ? acc[C::kTileN / 4 + chunk * 8 + e] : 0;
    }
    Position at = first;
    at.col += chunk * 16;
    at.chunk_col += chunk * 16;
    at.in_tile = chunk * 16;
    const ChunkVectors<C, Program> here{vectors.cols[block], spans, vectors.rows + (chunk * 16 + in_quad) * 4};
    Program::spans(arguments, at, here, acc0, acc1, spans);
  }
#pragma unroll
  for (int head = 0; head < kHeads; ++head)
#pragma unroll
    for (int i = 0; i < Program::kSpans; ++i)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        spans[head][i][r] += __shfl_xor_sync(0xffffffffu, spans[head][i][r], 1);
        spans[head][i][r] += __shfl_xor_sync(0xffffffffu, spans[head][i][r], 2);
      }
}

// Computes a tile's vectors, under a product, which hides the way of what is loaded.
template <class C, class Program>
__device__ __forceinline__ void begin_tile(const typename Program::Arguments& arguments, const Tile& tile,
                                           const Staging<C>& staging, TileVectors<C>& vectors) {
  const u32 thread = threadIdx.x % 128;
  if constexpr (Program::kCols > 0) {
    const i32 row = tile.row + consumer_row<C>(staging.consumer) + static_cast<i32>(thread / 32 * 16 + thread % 32 / 4);
#pragma unroll
    for (int block = 0; block < kRowBlocks<C>; ++block)
      Program::cols(arguments,
                    Position{row + block * 64, tile.col, arguments.rows, arguments.cols, tile.col, 0, false, false},
                    vectors.cols[block]);
  }
  if constexpr (Program::kRows > 0) {
    staging.sync();  // until all have read the last tile's
    for (i32 col = static_cast<i32>(thread); col < C::kOutputTileN; col += 128) {
      float kept[Program::kRows];
      Program::rows(arguments, tile.col + col, kept);
#pragma unroll
      for (int i = 0; i < Program::kRows; ++i)
        shared_store(vectors.rows + i * Layout<C>::kRowVectorBytes + col * 4, kept[i]);
    }
  }
}

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

// Runs the program on one consumer's part of a tile. Each warp stages and sends its own 16 rows, so that none waits for
// the others.
template <class C, class Program, bool Whole>
__device__ __forceinline__ void run_program(const typename C::Params& p, const typename Program::Arguments& arguments,
                                            const Tile& tile, const float (&acc)[kRowBlocks<C>][C::kTileN / 2],
                                            Staging<C>& staging, const TileVectors<C>& vectors) {
  using L = Layout<C>;
  using Inputs = typename Program::StagedInputs;
  using Outputs = typename Program::StagedOutputs;
  const u32 lane = lane_id(), warp = uniform(threadIdx.x / 32 % 4);
  const MatrixLane matrix_lane(warp, lane);
  const i32 first_row = tile.row + consumer_row<C>(staging.consumer);
  if constexpr (Program::kRows > 0) staging.sync();  // until all have written them
#pragma unroll
  for (int block = 0; block < kRowBlocks<C>; ++block) {
    typename Program::Reductions reductions;
    HeadSums<C, Program> spans;
    if constexpr (Program::kSpans > 0) {
      const i32 in_quad = static_cast<i32>(lane % 4 * 2);
      const Position first{first_row + block * 64 + static_cast<i32>(warp * 16 + lane / 4),
                           tile.col + in_quad,
                           arguments.rows,
                           arguments.cols,
                           tile.col,
                           0,
                           false,
                           false};
      sum_spans<C, Program>(arguments, first, acc[block], vectors, block, spans);
    }
#pragma unroll
    for (int sub = 0; sub < C::kOutputTileN / C::kSub; ++sub) {
      const i32 row = first_row + block * 64, col = tile.col + sub * C::kSub;
      InputTiles<C, Inputs> inputs(matrix_lane);
      inputs.begin(staging);
      if constexpr (Outputs::kCount > 0) {
        if (lane == 0) tma_store_wait_read<C::kOutputBuffers - 1>();
        __syncwarp();
      }
      const u32 to = staging.output();
#pragma unroll
      for (int chunk = 0; chunk < C::kSub / 16; ++chunk) {
        constexpr int kSecond = C::kTileN / 4;  // where a pair's second accumulator begins
        const int from = (sub * C::kSub + chunk * 16) / 2;
        float acc0[8], acc1[8], partner0[8], partner1[8], in[kAtLeastOne<Inputs::kCount>][8],
            out[kAtLeastOne<Outputs::kCount>][8];
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          acc0[e] = acc[block][from + e];
          acc1[e] = C::kPair ? acc[block][kSecond + from + e] : 0;
          const int partner = partner_of<typename Program::Pairs>(from + e, sub * C::kSub + chunk * 16, e);
          partner0[e] = acc[block][partner];
          partner1[e] = C::kPair ? acc[block][kSecond + partner] : 0;
        }
        inputs.take(staging, chunk, in);
        if (chunk + 1 == C::kSub / 16) inputs.end(staging);
        const i32 in_tile = sub * C::kSub + chunk * 16, in_quad = static_cast<i32>(lane % 4 * 2);
        const Position at{row + static_cast<i32>(warp * 16 + lane / 4),
                          tile.col + in_tile + in_quad,
                          arguments.rows,
                          arguments.cols,
                          tile.col + in_tile,
                          in_tile,
                          in_tile + 16 == C::kOutputTileN,
                          Whole};
        const ChunkVectors<C, Program> here{vectors.cols[block], spans, vectors.rows + (in_tile + in_quad) * 4};
        Program::chunk(arguments, at, here, acc0, acc1, partner0, partner1, in, out, reductions);
        for_each_constant<Outputs::kCount>([&](auto output) {
          using At = ElementAt<decltype(output)::value, Outputs>;
          stage_output<C, typename At::Type>(to + At::kUnit * L::kSubBytes, chunk, out[output.value], matrix_lane);
        });
      }
      if constexpr (Outputs::kCount > 0) {
        fence_async_proxy();
        __syncwarp();
        if (lane == 0) {
          for_each_constant<Outputs::kCount>([&](auto output) {
            using At = ElementAt<decltype(output)::value, Outputs>;
            send_output<C, typename At::Type>(&p.outputs[tile.segment * C::kOutputMaps + output.value],
                                              to + At::kUnit * L::kSubBytes, warp, row + static_cast<i32>(warp * 16),
                                              col);
          });
          tma_store_commit();
        }
        staging.output_slot = (staging.output_slot + 1) % C::kOutputBuffers;
      }
    }
  }
}

// A reduction leaves out columns past the end. Few tiles have any: the others do not ask.
template <class C, class Program>
__device__ __forceinline__ void run_epilogue(const typename C::Params& p, const typename Program::Arguments& arguments,
                                             const Tile& tile, const float (&acc)[kRowBlocks<C>][C::kTileN / 2],
                                             Staging<C>& staging, const TileVectors<C>& vectors) {
  if (Program::kReduces && tile.col + C::kOutputTileN <= arguments.cols) {
    run_program<C, Program, true>(p, arguments, tile, acc, staging, vectors);
  } else {
    run_program<C, Program, false>(p, arguments, tile, acc, staging, vectors);
  }
}

}  // namespace coda
