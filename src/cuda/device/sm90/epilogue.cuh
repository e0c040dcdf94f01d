// The frame round a program: sub-tiles of 64 rows × C::kSub columns of the accumulator meet their staged inputs, the
// program's chunk function (tile.cuh tells what a chunk is), and their staged outputs.
#pragma once

#include "sm90/vectors.cuh"

namespace coda {

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
        float in[kAtLeastOne<Inputs::kCount>][8], out[kAtLeastOne<Outputs::kCount>][8];
        inputs.take(staging, chunk, in);
        if (chunk + 1 == C::kSub / 16) inputs.end(staging);
        const Position at = position_of(arguments, tile, row, in_tile, in_tile + 16 == C::kOutputTileN, Whole);
        const auto own = Accumulators::of<C, typename Program::Pairs>(acc[block], at);
        typename Program::Loads loads;
        Program::load(arguments, at, loads);
        Program::chunk(arguments, at, ChunkVectors<C, Program>(vectors, spans, block, in_tile), own.acc0, own.acc1,
                       own.partner0, own.partner1, loads, in, out, reductions);
        outputs.put(chunk, out);
      }
      outputs.send(outputs_of_segment, staging, warp, row, tile.col + sub);
    }
    if constexpr (Program::kColumns > 0) store_columns<C, Program>(arguments, tile, row, staging, vectors);
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
