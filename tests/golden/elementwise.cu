// lse_backward, elementwise
#include "elementwise.cuh"

namespace coda {

struct Epilogue {
  using StagedInputs = Elements<>;
  using StagedOutputs = Elements<>;
  using Pairs = NoPairs;
  static constexpr int kCols = 4, kRows = 1, kColumns = 0;
  static constexpr int kSpans = 0, kSpanHead = 64;
  static constexpr bool kReduces = false;

  struct Arguments {
    i32 rows, cols;
    i32 lse_count;
    Matrix targets;
    Matrix d_target;
    Matrix d_lse;
    Matrix logits;
    Matrix lse;
    Matrix d_acc0;
  };

  // What a thread has reduced of its two rows, since the last whole width of columns, and what they selected.
  struct Reductions {
  };

  template <class Cols>
  __device__ __forceinline__ static void cols(const Arguments& a, const Position& at, Cols& kept) {
    float targets_at[2];
    load_col<F32>(a.targets, at, targets_at);
    float d_target_at[2];
    load_col<F32>(a.d_target, at, d_target_at);
    float d_lse_at[2];
    load_col<F32>(a.d_lse, at, d_lse_at);
    float lse_at[2];
    finish_row<RowLogSumExp>(a.lse, a.lse_count, at, lse_at);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float targets = targets_at[r];
      const float d_target = d_target_at[r];
      const float d_lse = d_lse_at[r];
      const float lse = lse_at[r];
      kept[0][r] = targets;
      kept[1][r] = d_target;
      kept[2][r] = d_lse;
      kept[3][r] = lse;
    }
  }

  template <class Rows>
  __device__ __forceinline__ static void rows(const Arguments& a, i32 col, Rows& kept) {
    const float v0 = static_cast<float>(col);
    kept[0] = v0;
  }

  struct Loads {
    float logits_at[8];
  };

  __device__ __forceinline__ static void load(const Arguments& a, const Position& at, Loads& own) {
    load_tile<Bf16, Fours, 0>(a.logits, at, own.logits_at);
  }

  template <class Vectors, class In, class Out>
  __device__ __forceinline__ static void chunk(const Arguments& a, const Position& at, const Vectors& vectors,
                                               const float (&acc0)[8], const float (&acc1)[8],
                                               const float (&partner0)[8], const float (&partner1)[8],
                                               const Loads& own, const In& loaded, Out& stored, Reductions& reductions) {
    float v0[4];
    vectors.template row<0>(v0);
    const float (&targets)[2] = vectors.cols[0];
    const float (&d_target)[2] = vectors.cols[1];
    const float (&d_lse)[2] = vectors.cols[2];
    const float (&lse)[2] = vectors.cols[3];
    float d_acc0_values[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float v2 = equal(v0[col_of(e)], targets[row_of(e)]);
      const float v5 = select(v2, d_target[row_of(e)], 0.f);
      const float logits = own.logits_at[e];
      const float v9 = logits - lse[row_of(e)];
      const float v10 = expf(v9);
      const float v11 = d_lse[row_of(e)] * v10;
      const float d_logits = v5 + v11;
      d_acc0_values[e] = d_logits;
    }
    store_tile<Bf16, Fours>(a.d_acc0, at, d_acc0_values);
  }
};

struct KernelParams {
  Epilogue::Arguments arguments[1];
  i32 runs[1];
};
static_assert(sizeof(KernelParams) == 168, "the host lays it out alike");

struct Config {
  using Params = KernelParams;
  static constexpr int kSegments = 1;

  // Calls body with the program of a segment, its Span and its arguments.
  template <class Body>
  __device__ __forceinline__ static void visit(const Params& p, i32 segment, Body&& body) {
    body(Epilogue{}, Span<64, true>{}, p.arguments[0]);
  }
};

}  // namespace coda

extern "C" __global__ void __launch_bounds__(coda::kElementwiseThreads, 4)
    CODA_KERNEL(const __grid_constant__ coda::KernelParams p) {
  coda::run_elementwise<coda::Config>(p);
}
