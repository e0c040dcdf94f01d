// rms_lse_128x128: bf16, A K-major, B K-major
// 128x128 cooperative, 4 stages, cluster 2x1, raster 8, sub 64, buffers 2+2
#define CODA_ELEMENT "bf16"
#include "sm90/gemm.cuh"

namespace coda {

struct Epilogue {
  using StagedInputs = Elements<>;
  using StagedOutputs = Elements<>;
  using Pairs = NoPairs;
  static constexpr int kCols = 2, kRows = 0, kColumns = 0;
  static constexpr int kSpans = 0, kSpanHead = 64;
  static constexpr bool kReduces = true;

  struct Arguments {
    i32 rows, cols;
    i32 sum_sq_count;
    Matrix sum_sq;
    Matrix lse;
    Matrix targets;
    Matrix target;
  };

  // What a thread has reduced of its two rows, since the last whole width of columns, and what they selected.
  struct Reductions {
    Partial<RowLogSumExp> lse;
    Selected<F32> target;
  };

  template <class Cols>
  __device__ __forceinline__ static void cols(const Arguments& a, const Position& at, Cols& kept) {
    float sum_sq_at[2];
    finish_row<RowSum>(a.sum_sq, a.sum_sq_count, at, sum_sq_at);
    float targets_at[2];
    load_col<I64>(a.targets, at, targets_at);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum_sq = sum_sq_at[r];
      const float mean_sq = sum_sq / 576.f;
      const float v5 = mean_sq + 1e-05f;
      const float rstd = rsqrtf(v5);
      const float targets = targets_at[r];
      kept[0][r] = rstd;
      kept[1][r] = targets;
    }
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
    const float (&rstd)[2] = vectors.cols[0];
    const float (&targets)[2] = vectors.cols[1];
    float lse_values[8];
    float target_values[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float logits = acc0[e] * rstd[row_of(e)];
      lse_values[e] = logits;
      target_values[e] = logits;
    }
    reductions.lse.add(at, lse_values);
    if (at.ends(64)) reductions.lse.store(a.lse, at, 64);
    reductions.target.add(at, targets, target_values);
    if (at.last) reductions.target.store(a.target, at, targets, -100.f);
    store_unselected<F32>(a.target, at, targets, -100.f);
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
static_assert(sizeof(KernelParams) == 704, "the host lays it out alike");

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
  static constexpr int kCols = 2;
  static constexpr int kRows = 0;
  static constexpr int kSub = 64;
  static constexpr int kInputMaps = 0;
  static constexpr int kInputBuffers = 0;
  static constexpr int kOutputMaps = 0;
  static constexpr int kOutputUnits = 0;
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
