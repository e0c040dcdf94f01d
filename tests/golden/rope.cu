// rope_128x128: bf16, A K-major, B K-major
// 128x128 cooperative, 4 stages, cluster 2x1, raster 8, sub 64, buffers 2+2
#define CODA_ELEMENT "bf16"
#include "sm90/gemm.cuh"

namespace coda {

struct Epilogue {
  using StagedInputs = Elements<>;
  using StagedOutputs = Elements<Bf16>;  // out
  using Pairs = Halves<64, 64>;
  static constexpr int kCols = 1, kRows = 1, kColumns = 0;
  static constexpr int kSpans = 0, kSpanHead = 64;
  static constexpr bool kReduces = false;

  struct Arguments {
    i32 rows, cols;
    Matrix positions;
  };

  // What a thread has reduced of its two rows, since the last whole width of columns, and what they selected.
  struct Reductions {
  };

  template <class Cols>
  __device__ __forceinline__ static void cols(const Arguments& a, const Position& at, Cols& kept) {
    float position_at[2];
    load_col<F32>(a.positions, at, position_at);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float position = position_at[r];
      kept[0][r] = position;
    }
  }

  template <class Rows>
  __device__ __forceinline__ static void rows(const Arguments& a, i32 col, Rows& kept) {
    const float pair = static_cast<float>(Pairs::pair_of(col) % 32);
    const float v5 = pair * -0.415241f;
    const float frequency = exp2f(v5);
    kept[0] = frequency;
  }

  struct Loads {
  };

  __device__ __forceinline__ static void load(const Arguments& a, const Position& at, Loads& own) {
  }

  template <class Vectors, class In, class Out>
  __device__ __forceinline__ static void chunk(const Arguments& a, const Position& at, const Vectors& vectors,
                                               const float (&acc0)[8], const float (&acc1)[8],
                                               const float (&partner0)[8], const float (&partner1)[8],
                                               const Loads& own, const In& loaded, Out& stored, Reductions& reductions) {
    float frequency[4];
    vectors.template pair_row<0, Pairs>(at, frequency);
    const float (&position)[2] = vectors.cols[0];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float first = Pairs::is_first(at, col_of(e)) ? acc0[e] : partner0[e];
      const float angle = position[row_of(e)] * frequency[col_of(e)];
      const float cos = cos_of(angle);
      const float v9 = first * cos;
      const float second = Pairs::is_first(at, col_of(e)) ? partner0[e] : acc0[e];
      const float sin = sin_of(angle);
      const float v12 = second * sin;
      const float turned_first = v9 - v12;
      const float v14 = second * cos;
      const float v15 = first * sin;
      const float turned_second = v14 + v15;
      const float out = Pairs::is_first(at, col_of(e)) ? turned_first : turned_second;
      stored[0][e] = out;
    }
  }
};

struct KernelParams {
  TensorMap a[1];
  TensorMap b[1];
  TensorMap outputs[1];
  TensorMap inputs[1];
  Epilogue::Arguments arguments[1];
  i32 k_blocks[1];
  i32 segment_tiles[1];
  i32 cluster_rows, cluster_cols, raster_group;
};
static_assert(sizeof(KernelParams) == 576, "the host lays it out alike");

struct Config {
  using Params = KernelParams;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kOutputTileN = 128;
  static constexpr int kStages = 4;
  static constexpr int kClusterM = 2;
  static constexpr int kClusterN = 1;
  static constexpr int kSplitK = 1;
  static constexpr bool kPingPong = false;
  static constexpr bool kAMajorK = true;
  static constexpr bool kBMajorK = true;
  static constexpr bool kPair = false;
  static constexpr int kKParts = 1;
  static constexpr int kSegments = 1;
  static constexpr bool kSegmentsAlongN = true;
  static constexpr bool kMakesVectors = true;
  static constexpr int kCols = 1;
  static constexpr int kRows = 1;
  static constexpr int kSub = 64;
  static constexpr int kInputMaps = 0;
  static constexpr int kInputBuffers = 0;
  static constexpr int kOutputMaps = 1;
  static constexpr int kOutputUnits = 1;
  static constexpr int kOutputBuffers = 2;

  // Calls body with the epilogue of a segment and its arguments.
  template <class Body>
  __device__ __forceinline__ static void visit(const Params& p, i32 segment, Body&& body) {
    body(Epilogue{}, p.arguments[0]);
  }

  __device__ __forceinline__ static constexpr int staged_inputs(i32 segment) {
    return 0;
  }
};

}  // namespace coda

extern "C" __global__ void __launch_bounds__(coda::kThreads, 1)
    CODA_KERNEL(const __grid_constant__ coda::KernelParams p) {
  coda::run_gemm<coda::Config>(p);
}
