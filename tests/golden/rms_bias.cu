// rms_128x128: bf16, A K-major, B K-major
// 128x128 cooperative, 4 stages, cluster 2x1, raster 8, sub 64, buffers 2+2
#define CODA_ELEMENT "bf16"
#include "sm90/gemm.cuh"

namespace coda {

struct Epilogue {
  using StagedInputs = Elements<>;
  using StagedOutputs = Elements<Bf16>;  // out
  using Pairs = NoPairs;
  static constexpr int kCols = 1, kRows = 1, kColumns = 0;
  static constexpr int kSpans = 0, kSpanHead = 64;
  static constexpr bool kReduces = false;

  struct Arguments {
    i32 rows, cols;
    i32 sum_sq_count;
    Matrix sum_sq;
    Matrix bias;
  };

  // What a thread has reduced of its two rows, since the last whole width of columns, and what they selected.
  struct Reductions {
  };

  template <class Cols>
  __device__ __forceinline__ static void cols(const Arguments& a, const Position& at, Cols& kept) {
    float sum_sq_at[2];
    finish_row<RowSum>(a.sum_sq, a.sum_sq_count, at, sum_sq_at);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum_sq = sum_sq_at[r];
      const float mean_sq = sum_sq / 576.f;
      const float v5 = mean_sq + 1e-05f;
      const float rstd = rsqrtf(v5);
      kept[0][r] = rstd;
    }
  }

  template <class Rows>
  __device__ __forceinline__ static void rows(const Arguments& a, i32 col, Rows& kept) {
    const float bias = load_entry<Bf16>(a.bias, col, col < a.cols);
    kept[0] = bias;
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
    float bias[4];
    vectors.template row<0>(bias);
    const float (&rstd)[2] = vectors.cols[0];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float v7 = acc0[e] * rstd[row_of(e)];
      const float out = v7 + bias[col_of(e)];
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
static_assert(sizeof(KernelParams) == 640, "the host lays it out alike");

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
