// Products of one panel on one thread: C = A·B with fp32 accumulators, for f32, bf16 and f16 matrices of any strides.
//
//   PackedPanel packed;
//   packed.pack(b, depth, cols);                                      // B once ...
//   for (each block of rows) packed.product(a_block, rows, c, ldc);   // ... used by many blocks
//
// Both factors have one dtype. An entry of C is summed over depth in an order that depends on depth alone: a row of C
// never depends on how many other rows or columns are computed with it.
#pragma once

#include <cstdint>

#include "coda/dtype.h"
#include "cpu/buffer.h"

namespace coda::cpu {

/// Memory of a matrix; its extents come with the call. Strides count elements and may be 0 or negative.
struct MatrixRef {
  const void* data = nullptr;
  DType dtype = DType::F32;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;

  /// The matrix that starts at (row, col).
  MatrixRef at(std::int64_t row, std::int64_t col) const {
    const auto bytes = (row * row_stride + col * col_stride) * static_cast<std::int64_t>(size_of(dtype));
    return {static_cast<const char*>(data) + bytes, dtype, row_stride, col_stride};
  }
};

/// C (rows×cols, fp32, row-major, `ldc` apart) = A (rows×depth) · B (depth×cols), added to C when `accumulate`.
void panel_product(const MatrixRef& a, const MatrixRef& b, std::int64_t rows, std::int64_t cols, std::int64_t depth,
                   float* c, std::int64_t ldc, bool accumulate = false);

/// B packed for many products. Its memory is kept from one pack() to the next.
class PackedPanel {
 public:
  /// Packs B (depth×cols).
  void pack(const MatrixRef& b, std::int64_t depth, std::int64_t cols);

  /// C = A·B, or added to C. a: rows×depth, of B's dtype. Several threads may call it at once.
  void product(const MatrixRef& a, std::int64_t rows, float* c, std::int64_t ldc, bool accumulate = false) const;

 private:
  DType dtype_ = DType::F32;
  std::int64_t depth_ = 0;
  std::int64_t cols_ = 0;
  Buffer memory_;
};

}  // namespace coda::cpu
