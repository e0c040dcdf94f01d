// rms_entry, elementwise
#include "elementwise.cuh"

namespace coda {

struct Epilogue {
  using StagedInputs = Elements<>;
  using StagedOutputs = Elements<>;
  using Pairs = NoPairs;
  static constexpr int kCols = 0, kRows = 1, kColumns = 0;
  static constexpr int kSpans = 0, kSpanHead = 64;
  static constexpr bool kReduces = true;

  struct Arguments {
    i32 rows, cols;
    Matrix x;
    Matrix gamma;
    Matrix h;
    Matrix sum_sq;
  };

  // What a thread has reduced of its two rows, since the last whole width of columns, and what they selected.
  struct Reductions {
    Partial<RowSum> sum_sq;
  };

  template <class Rows>
  __device__ __forceinline__ static void rows(const Arguments& a, i32 col, Rows& kept) {
    const float gamma = load_entry<Bf16>(a.gamma, col, col < a.cols);
    kept[0] = gamma;
  }

  struct Loads {
    float x_at[8];
  };

  __device__ __forceinline__ static void load(const Arguments& a, const Position& at, Loads& own) {
    load_tile<Bf16, Fours, 0>(a.x, at, own.x_at);
  }

  template <class Vectors, class In, class Out>
  __device__ __forceinline__ static void chunk(const Arguments& a, const Position& at, const Vectors& vectors,
                                               const float (&acc0)[8], const float (&acc1)[8],
                                               const float (&partner0)[8], const float (&partner1)[8],
                                               const Loads& own, const In& loaded, Out& stored, Reductions& reductions) {
    float gamma[4];
    vectors.template row<0>(gamma);
    float h_values[8];
    float sum_sq_values[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float x = own.x_at[e];
      const float h = x * gamma[col_of(e)];
      const float x_sq = square(x);
      h_values[e] = h;
      sum_sq_values[e] = x_sq;
    }
    store_tile<Bf16, Fours>(a.h, at, h_values);
    reductions.sum_sq.add(at, sum_sq_values);
    if (at.ends(64)) reductions.sum_sq.store(a.sum_sq, at, 64);
  }
};

struct KernelParams {
  Epilogue::Arguments arguments[1];
  i32 runs[1];
};
static_assert(sizeof(KernelParams) == 112, "the host lays it out alike");

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
