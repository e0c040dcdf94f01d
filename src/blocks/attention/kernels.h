// The vector loops of attention, one set for each instruction set.
#pragma once

#include <cstdint>

#include "coda/dtype.h"

namespace coda::attention {

/// Distance between rows of scores: a multiple of every vector's lanes.
inline constexpr std::int64_t kRowUnit = 16;

/// A block of scores (queries × keys) and the state of the softmax of its rows, which earlier blocks began.
struct SoftmaxBlock {
  float* scores = nullptr;  ///< rows × cols, `pitch` apart; pitch ≥ cols rounded up to kRowUnit; overwritten
  std::int64_t pitch = 0;
  std::int64_t rows = 0, cols = 0;
  std::int64_t visible = 0;       ///< keys of the block that row 0 sees; beyond cols: all; 0 and below: none
  std::int64_t visible_step = 0;  ///< how many more each further row sees
  float factor = 1;               ///< the scores' scale · log2 e
  float* maximum = nullptr;       ///< per row: largest score · factor so far; −inf at first
  float* sum = nullptr;           ///< per row: Σ 2^(score·factor − maximum)
  float* rescale = nullptr;       ///< per row, written: what results of earlier blocks must be multiplied by
  DType dtype = DType::F32;       ///< of `probabilities`
  void* probabilities = nullptr;  ///< rows × pitch, written, 0 where a key is not seen; may be `scores` for f32
};

/// A block of scores again, and of the gradients by its probabilities, for the backward.
struct GradientBlock {
  const float* scores = nullptr;           ///< rows × cols, `pitch` apart as in SoftmaxBlock
  const float* d_probabilities = nullptr;  ///< the same shape
  std::int64_t pitch = 0;
  std::int64_t rows = 0, cols = 0;
  std::int64_t visible = 0, visible_step = 0;  ///< as in SoftmaxBlock
  float scale = 1;                             ///< of the scores
  const float* lse = nullptr;                  ///< per row: log Σ exp of all its scaled scores
  const float* mean = nullptr;                 ///< per row: Σ probability · gradient, over all its keys
  DType dtype = DType::F32;                    ///< of both results, which are 0 where a key is not seen
  void* probabilities = nullptr;               ///< rows × pitch: exp(score·scale − lse)
  void* d_scores = nullptr;                    ///< rows × pitch: probability · (gradient − mean) · scale
};

struct Kernels {
  void (*softmax)(const SoftmaxBlock& block);

  void (*gradient)(const GradientBlock& block);

  /// out[r] = ⟨row r of a, row r of b⟩
  void (*row_dots)(DType dtype, const void* a, std::int64_t a_pitch, const void* b, std::int64_t b_pitch,
                   std::int64_t rows, std::int64_t cols, float* out);

  /// True when no value (rows × cols, `pitch` apart) is NaN or infinite.
  bool (*all_finite)(DType dtype, const void* values, std::int64_t pitch, std::int64_t rows, std::int64_t cols);

  /// Multiplies row r of out (rows × cols, `pitch` apart) by factors[r].
  void (*scale_rows)(float* out, std::int64_t pitch, std::int64_t rows, std::int64_t cols, const float* factors);

  /// result[r] = out[r] / sums[r], rounded to dtype; result rows are `result_pitch` elements apart.
  void (*divide_rows)(const float* out, std::int64_t pitch, std::int64_t rows, std::int64_t cols, const float* sums,
                      DType dtype, void* result, std::int64_t result_pitch);

  /// scores[r][j] = ⟨query r, key j⟩ for a few queries (f32, `width` apart) and many keys (of dtype, `key_pitch`
  /// apart).
  void (*dot)(const float* queries, std::int64_t rows, DType dtype, const void* keys, std::int64_t key_pitch,
              std::int64_t count, std::int64_t width, float* scores, std::int64_t pitch);

  /// out[r] = Σ_j weights[r][j] · value j, over `count` values of `width` columns; out rows `width` apart.
  void (*combine)(const float* weights, std::int64_t pitch, std::int64_t rows, DType dtype, const void* values,
                  std::int64_t value_pitch, std::int64_t count, std::int64_t width, float* out);
};

/// The best set this machine runs.
const Kernels& kernels();

// Null where the machine lacks the instruction set.
const Kernels* portable_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace coda::attention
