// The frame round a program: sub-tiles of 64 rows × C::kSub columns of the accumulator meet their staged inputs, the
// program's chunk function (tile.cuh tells what a chunk is), and their staged outputs.
#pragma once

#include "sm90/vectors.cuh"

namespace coda {

// Element e's partner among the accumulators of a row block, at `own`; itself where there is none.
template <class Pairs>
__device__ __forceinline__ int partner_of(int own, i32 in_tile, int e) {
  if constexpr (Pairs::kAny) {
    return own + Pairs::accumulators(in_tile + e / 4 * 8, e);
  } else {
    return own;
  }
}

// The accumulators of a chunk, and its partners'.
struct Accumulators {
  float acc0[8], acc1[8], partner0[8], partner1[8];

  template <class C, class Pairs>
  __device__ __forceinline__ static Accumulators of(const float (&acc)[C::kTileN / 2], i32 in_tile) {
    constexpr int kSecond = C::kTileN / 4;  // where a pair's second accumulator begins
    Accumulators chunk;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int own = in_tile / 2 + e, partner = partner_of<Pairs>(own, in_tile, e);
      chunk.acc0[e] = acc[own];
      chunk.acc1[e] = C::kPair ? acc[kSecond + own] : 0;
      chunk.partner0[e] = acc[partner];
      chunk.partner1[e] = C::kPair ? acc[kSecond + partner] : 0;
    }
    return chunk;
  }
};

// Runs the program on one consumer's part of a tile.
template <class C, class Program, bool Whole>
__device__ __forceinline__ void run_program(const typename C::Params& p, const typename Program::Arguments& arguments,
                                            const Tile& tile, const float (&acc)[kRowBlocks<C>][C::kTileN / 2],
                                            Staging<C>& staging, const TileVectors<C>& vectors) {
  using Inputs = typename Program::StagedInputs;
  using Outputs = typename Program::StagedOutputs;
  const u32 warp = uniform(threadIdx.x / 32 % 4);
  const MatrixLane matrix_lane(warp, lane_id());
  const TensorMap* outputs_of_segment = &p.outputs[tile.segment * C::kOutputMaps];
  if constexpr (Program::kRows > 0) staging.sync();  // until all have written them
#pragma unroll
  for (int block = 0; block < kRowBlocks<C>; ++block) {
    const i32 row = tile.row + consumer_row<C>(staging.consumer) + block * 64;
    typename Program::Reductions reductions;
    HeadSums<C, Program> spans;
    if constexpr (Program::kSpans > 0) sum_spans<C, Program>(arguments, tile, row, acc[block], vectors, block, spans);
#pragma unroll
    for (int sub = 0; sub < C::kOutputTileN; sub += C::kSub) {
      InputTiles<C, Inputs> inputs(matrix_lane);
      inputs.begin(staging);
      const OutputTiles<C, Outputs> outputs(staging, matrix_lane);
#pragma unroll
      for (int chunk = 0; chunk < C::kSub / 16; ++chunk) {
        const i32 in_tile = sub + chunk * 16;
        const auto own = Accumulators::of<C, typename Program::Pairs>(acc[block], in_tile);
        float in[kAtLeastOne<Inputs::kCount>][8], out[kAtLeastOne<Outputs::kCount>][8];
        inputs.take(staging, chunk, in);
        if (chunk + 1 == C::kSub / 16) inputs.end(staging);
        const Position at = position_of(arguments, tile, row, in_tile, in_tile + 16 == C::kOutputTileN, Whole);
        Program::chunk(arguments, at, ChunkVectors<C, Program>(vectors, spans, block, in_tile), own.acc0, own.acc1,
                       own.partner0, own.partner1, in, out, reductions);
        outputs.put(chunk, out);
      }
      outputs.send(outputs_of_segment, staging, warp, row, tile.col + sub);
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
