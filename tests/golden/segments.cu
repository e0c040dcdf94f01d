// accumulate_residual_128x64: bf16, A MN-major, B MN-major, 3 segments along N
// 128x64 ping-pong, 4 stages, cluster 1x1, raster 8, sub 64, buffers 2+2
#define CODA_ELEMENT "bf16"
#include "sm90/gemm.cuh"

namespace coda {

struct Epilogue {
  using StagedInputs = Elements<>;
  using StagedOutputs = Elements<Added<F32>>;  // out
  using Pairs = NoPairs;
  static constexpr int kCols = 0, kRows = 0, kColumns = 0;
  static constexpr int kSpans = 0, kSpanHead = 64;
  static constexpr bool kReduces = false;

  struct Arguments {
    i32 rows, cols;
  };

  // What a thread has reduced of its two rows, since the last whole width of columns, and what they selected.
  struct Reductions {
  };

  struct Loads {
  };

  __device__ __forceinline__ static void load(const Arguments& a, const Position& at, Loads& own) {
  }

  template <class Vectors, class In, class Out>
  __device__ __forceinline__ static void chunk(const Arguments& a, const Position& at, const Vectors& vectors,
                                               const float (&acc0)[8], const float (&acc1)[8],
                                               const float (&partner0)[8], const float (&partner1)[8],
                                               const Loads& own, const In& loaded, Out& stored, Reductions& reductions) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      stored[0][e] = acc0[e];
    }
  }
};

struct Epilogue1 {
  using StagedInputs = Elements<Bf16>;  // residual
  using StagedOutputs = Elements<Bf16>;  // out
  using Pairs = NoPairs;
  static constexpr int kCols = 0, kRows = 0, kColumns = 0;
  static constexpr int kSpans = 0, kSpanHead = 64;
  static constexpr bool kReduces = false;

  struct Arguments {
    i32 rows, cols;
  };

  // What a thread has reduced of its two rows, since the last whole width of columns, and what they selected.
  struct Reductions {
  };

  struct Loads {
  };

  __device__ __forceinline__ static void load(const Arguments& a, const Position& at, Loads& own) {
  }

  template <class Vectors, class In, class Out>
  __device__ __forceinline__ static void chunk(const Arguments& a, const Position& at, const Vectors& vectors,
                                               const float (&acc0)[8], const float (&acc1)[8],
                                               const float (&partner0)[8], const float (&partner1)[8],
                                               const Loads& own, const In& loaded, Out& stored, Reductions& reductions) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float residual = loaded[0][e];
      const float out = acc0[e] + residual;
      stored[0][e] = out;
    }
  }
};

struct Epilogue2 {
  using StagedInputs = Elements<>;
  using StagedOutputs = Elements<>;
  using Pairs = NoPairs;
  static constexpr int kCols = 0, kRows = 0, kColumns = 0;
  static constexpr int kSpans = 0, kSpanHead = 64;
  static constexpr bool kReduces = false;

  struct Arguments {
    i32 rows, cols;
    Matrix residual;
    Matrix out;
  };

  // What a thread has reduced of its two rows, since the last whole width of columns, and what they selected.
  struct Reductions {
  };

  struct Loads {
    float residual_at[8];
  };

  __device__ __forceinline__ static void load(const Arguments& a, const Position& at, Loads& own) {
    load_tile<Bf16, Single, 0>(a.residual, at, own.residual_at);
  }

  template <class Vectors, class In, class Out>
  __device__ __forceinline__ static void chunk(const Arguments& a, const Position& at, const Vectors& vectors,
                                               const float (&acc0)[8], const float (&acc1)[8],
                                               const float (&partner0)[8], const float (&partner1)[8],
                                               const Loads& own, const In& loaded, Out& stored, Reductions& reductions) {
    float out_values[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float residual = own.residual_at[e];
      const float out = acc0[e] + residual;
      out_values[e] = out;
    }
    store_tile<Bf16, Single>(a.out, at, out_values);
  }
};

struct KernelParams {
  TensorMap a[1];
  TensorMap b[3];
  TensorMap outputs[3];
  TensorMap inputs[3];
  Epilogue::Arguments arguments[1];
  Epilogue1::Arguments arguments1[1];
  Epilogue2::Arguments arguments2[1];
  i32 k_blocks[1];
  i32 segment_tiles[3];
  i32 cluster_rows, cluster_cols, raster_group;
};
static_assert(sizeof(KernelParams) == 1408, "the host lays it out alike");

struct Config {
  using Params = KernelParams;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 64;
  static constexpr int kOutputTileN = 64;
  static constexpr int kStages = 4;
  static constexpr int kClusterM = 1;
  static constexpr int kClusterN = 1;
  static constexpr int kSplitK = 1;
  static constexpr bool kPingPong = true;
  static constexpr bool kAMajorK = false;
  static constexpr bool kBMajorK = false;
  static constexpr bool kPair = false;
  static constexpr int kKParts = 1;
  static constexpr int kSegments = 3;
  static constexpr bool kSegmentsAlongN = true;
  static constexpr bool kMakesVectors = false;
  static constexpr int kCols = 0;
  static constexpr int kRows = 0;
  static constexpr int kSub = 64;
  static constexpr int kInputMaps = 1;
  static constexpr int kInputBuffers = 2;
  static constexpr int kOutputMaps = 1;
  static constexpr int kOutputUnits = 2;
  static constexpr int kOutputBuffers = 2;

  // Calls body with the epilogue of a segment and its arguments.
  template <class Body>
  __device__ __forceinline__ static void visit(const Params& p, i32 segment, Body&& body) {
    if (segment == 0) body(Epilogue{}, p.arguments[0]);
    if (segment == 1) body(Epilogue1{}, p.arguments1[0]);
    if (segment == 2) body(Epilogue2{}, p.arguments2[0]);
  }

  __device__ __forceinline__ static constexpr int staged_inputs(i32 segment) {
    if (segment == 0) return 0;
    if (segment == 1) return 1;
    if (segment == 2) return 0;
    return 0;
  }
};

}  // namespace coda

extern "C" __global__ void __launch_bounds__(coda::kThreads, 1)
    CODA_KERNEL(const __grid_constant__ coda::KernelParams p) {
  coda::run_gemm<coda::Config>(p);
}
