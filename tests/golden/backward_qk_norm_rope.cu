// qk_norm_rope_backward, elementwise
#include "elementwise.cuh"

namespace coda {

struct Epilogue {
  using StagedInputs = Elements<>;
  using StagedOutputs = Elements<>;
  using Pairs = Halves<64, 64>;
  static constexpr int kCols = 1, kRows = 2, kColumns = 1;
  static constexpr int kSpans = 2, kSpanHead = 64;
  static constexpr bool kReduces = false;

  struct Arguments {
    i32 rows, cols;
    Matrix d_out;
    Matrix positions;
    Matrix gamma;
    Matrix z;
    Matrix d_acc0;
    Matrix d_gamma;
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
    const float gamma = load_entry<Bf16>(a.gamma, col % 64, col < a.cols);
    kept[0] = frequency;
    kept[1] = gamma;
  }

  // Partners that the terms of sums over heads take from the accumulators.
  using TermPairs = NoPairs;

  template <class Vectors>
  __device__ __forceinline__ static void terms(Constant<0>, const Arguments& a, const Position& at, const Vectors& vectors,
                                               const float (&acc0)[8], const float (&acc1)[8],
                                               const float (&partner0)[8], const float (&partner1)[8],
                                               float (&terms)[8]) {
    float z_at[8];
    load_tile<Bf16, Fours, 0>(a.z, at, z_at);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float z = z_at[e];
      const float v21 = square(z);
      terms[e] = v21;
    }
  }

  template <class Vectors>
  __device__ __forceinline__ static void terms(Constant<1>, const Arguments& a, const Position& at, const Vectors& vectors,
                                               const float (&acc0)[8], const float (&acc1)[8],
                                               const float (&partner0)[8], const float (&partner1)[8],
                                               float (&terms)[8]) {
    float frequency[4];
    vectors.template pair_row<0, Pairs>(at, frequency);
    float gamma[4];
    vectors.template row<1>(gamma);
    const float (&position)[2] = vectors.cols[0];
    float d_out_at[8];
    load_tile<Bf16, Fours, 0>(a.d_out, at, d_out_at);
    float d_out_partner_at[8];
    load_partner_tile<Bf16, Fours, Pairs, 0>(a.d_out, at, d_out_partner_at);
    float z_at[8];
    load_tile<Bf16, Fours, 0>(a.z, at, z_at);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float d_out = d_out_at[e];
      const float d_out_partner = d_out_partner_at[e];
      const float d_turned_second = Pairs::is_first(at, col_of(e)) ? d_out_partner : d_out;
      const float angle = position[row_of(e)] * frequency[col_of(e)];
      const float sin = sin_of(angle);
      const float v9 = d_turned_second * sin;
      const float d_turned_first = Pairs::is_first(at, col_of(e)) ? d_out : d_out_partner;
      const float cos = cos_of(angle);
      const float v12 = d_turned_first * cos;
      const float d_first = v9 + v12;
      const float v14 = d_turned_second * cos;
      const float v15 = d_turned_first * sin;
      const float d_second = v14 - v15;
      const float v17 = Pairs::is_first(at, col_of(e)) ? d_first : d_second;
      const float d_normed = v17 * gamma[col_of(e)];
      const float z = z_at[e];
      const float v22 = vectors.template span<0>(at, e);
      const float head_mean_sq = v22 * 0.015625f;
      const float v26 = head_mean_sq + 1e-06f;
      const float head_rstd = rsqrtf(v26);
      const float d_head_rstd = d_normed * z;
      const float v30 = square(head_rstd);
      const float v31 = head_rstd * v30;
      const float v32 = d_head_rstd * v31;
      const float v34 = v32 * -0.015625f;
      terms[e] = v34;
    }
  }

  struct Loads {
    float d_out_at[8];
    float d_out_partner_at[8];
    float z_at[8];
  };

  __device__ __forceinline__ static void load(const Arguments& a, const Position& at, Loads& own) {
    load_tile<Bf16, Fours, 0>(a.d_out, at, own.d_out_at);
    load_partner_tile<Bf16, Fours, Pairs, 0>(a.d_out, at, own.d_out_partner_at);
    load_tile<Bf16, Fours, 0>(a.z, at, own.z_at);
  }

  template <class Vectors, class In, class Out>
  __device__ __forceinline__ static void chunk(const Arguments& a, const Position& at, const Vectors& vectors,
                                               const float (&acc0)[8], const float (&acc1)[8],
                                               const float (&partner0)[8], const float (&partner1)[8],
                                               const Loads& own, const In& loaded, Out& stored, Reductions& reductions) {
    float frequency[4];
    vectors.template pair_row<0, Pairs>(at, frequency);
    float gamma[4];
    vectors.template row<1>(gamma);
    const float (&position)[2] = vectors.cols[0];
    float d_acc0_values[8];
    float d_gamma_values[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float d_out = own.d_out_at[e];
      const float d_out_partner = own.d_out_partner_at[e];
      const float d_turned_second = Pairs::is_first(at, col_of(e)) ? d_out_partner : d_out;
      const float angle = position[row_of(e)] * frequency[col_of(e)];
      const float sin = sin_of(angle);
      const float v9 = d_turned_second * sin;
      const float d_turned_first = Pairs::is_first(at, col_of(e)) ? d_out : d_out_partner;
      const float cos = cos_of(angle);
      const float v12 = d_turned_first * cos;
      const float d_first = v9 + v12;
      const float v14 = d_turned_second * cos;
      const float v15 = d_turned_first * sin;
      const float d_second = v14 - v15;
      const float v17 = Pairs::is_first(at, col_of(e)) ? d_first : d_second;
      const float d_normed = v17 * gamma[col_of(e)];
      const float z = own.z_at[e];
      const float v22 = vectors.template span<0>(at, e);
      const float head_mean_sq = v22 * 0.015625f;
      const float v26 = head_mean_sq + 1e-06f;
      const float head_rstd = rsqrtf(v26);
      const float v28 = d_normed * head_rstd;
      const float v35 = vectors.template span<1>(at, e);
      const float v36 = v35 * z;
      const float d_z = v28 + v36;
      const float normed = z * head_rstd;
      const float v40 = v17 * normed;
      d_acc0_values[e] = d_z;
      d_gamma_values[e] = v40;
    }
    store_tile<Bf16, Fours>(a.d_acc0, at, d_acc0_values);
    reduce_down<ColumnSum>(at, d_gamma_values, vectors.template line<0>());
  }

  // Partials of column `col` for the 64 rows from `row` on: what the four warps have of it.
  __device__ __forceinline__ static void columns(const Arguments& a, i32 row, i32 col, const float* lines,
                                                 int stride, int stride_of_reductions) {
    store_partial<ColumnSum>(a.d_gamma, row, col, lines, stride);
  }
};

struct KernelParams {
  Epilogue::Arguments arguments[1];
  i32 runs[1];
};
static_assert(sizeof(KernelParams) == 160, "the host lays it out alike");

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

extern "C" __global__ void __launch_bounds__(coda::kElementwiseThreads, 1)
    CODA_KERNEL(const __grid_constant__ coda::KernelParams p) {
  coda::run_elementwise<coda::Config>(p);
}
