// The inner kernels of a panel product, one set for each instruction set; panel.cpp chooses among them at run time.
// A and B are packed before they meet, at most kPanelDepth deep; `multiply` then runs over packed memory alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/panel.h"

namespace coda::cpu {

/// Deepest block of A and B: a strip of B and the rows of a micro-tile stay in the first-level cache together.
inline constexpr std::int64_t kPanelDepth = 768;

struct PanelKernels {
  const char* name;
  std::int64_t row_block;  ///< rows of A to multiply at a time, so that they stay in the second-level cache
  std::int64_t a_pitch;    ///< distance of packed rows of A, in packed elements

  std::size_t (*a_bytes)(std::int64_t rows);
  std::size_t (*b_bytes)(std::int64_t depth, std::int64_t cols);
  void (*pack_a)(const MatrixRef& a, std::int64_t rows, std::int64_t depth, void* packed);
  void (*pack_b)(const MatrixRef& b, std::int64_t depth, std::int64_t cols, void* packed);
  /// Whether `multiply` may read this block of A where it is, with its row stride as the pitch.
  bool (*reads_in_place)(const MatrixRef& a, std::int64_t rows, std::int64_t depth);
  /// C = A·B, or added to C. Writes rows × cols entries of C and no others.
  void (*multiply)(const void* a, std::int64_t a_pitch, const void* b, std::int64_t rows, std::int64_t cols,
                   std::int64_t depth, float* c, std::int64_t ldc, bool accumulate);
};

/// Depth of the blocks in which a product of `depth` is summed.
std::int64_t panel_depth(std::int64_t depth);

/// The best kernels of this machine for factors of `dtype` (f32, bf16 or f16).
const PanelKernels& panel_kernels(DType dtype);

// Each is null where the build or the machine lacks the instructions.
const PanelKernels* portable_panel_kernels();
const PanelKernels* avx2_panel_kernels();
const PanelKernels* avx512_panel_kernels();
const PanelKernels* amx_panel_kernels();  ///< bf16 only

}  // namespace coda::cpu
