#include "cpu/panel.h"

#include <algorithm>

#include "core/check.h"
#include "cpu/panel_kernels.h"

namespace coda::cpu {
namespace {

const PanelKernels& best_fp32_kernels() {
  if (const PanelKernels* found = avx512_panel_kernels()) return *found;
  if (const PanelKernels* found = avx2_panel_kernels()) return *found;
  return *portable_panel_kernels();
}

}  // namespace

const PanelKernels& panel_kernels(DType dtype) {
  static const PanelKernels& fp32 = best_fp32_kernels();
  static const PanelKernels& bf16 = amx_panel_kernels() != nullptr ? *amx_panel_kernels() : fp32;
  return dtype == DType::BF16 ? bf16 : fp32;
}

std::int64_t panel_depth(std::int64_t depth) {
  const std::int64_t blocks = std::max<std::int64_t>(1, (depth + kPanelDepth - 1) / kPanelDepth);
  constexpr std::int64_t kStep = 32;  // what every kernel packs without padding
  return std::max(kStep, ((depth + blocks - 1) / blocks + kStep - 1) / kStep * kStep);
}

void PackedPanel::pack(const MatrixRef& b, std::int64_t depth, std::int64_t cols) {
  const PanelKernels& kernels = panel_kernels(b.dtype);
  dtype_ = b.dtype;
  depth_ = depth;
  cols_ = cols;
  const std::int64_t step = panel_depth(depth);
  const std::size_t block = kernels.b_bytes(step, cols);
  auto* to = static_cast<char*>(memory_.reserve(block * static_cast<std::size_t>((depth + step - 1) / step)));
  for (std::int64_t k = 0; k < depth; k += step, to += block)
    kernels.pack_b(b.at(k, 0), std::min(step, depth - k), cols, to);
}

void PackedPanel::product(const MatrixRef& a, std::int64_t rows, float* c, std::int64_t ldc, bool accumulate) const {
  const PanelKernels& kernels = panel_kernels(dtype_);
  if (depth_ == 0 && !accumulate) {
    for (std::int64_t r = 0; r < rows; ++r) std::fill_n(c + r * ldc, cols_, 0.0f);
  }
  thread_local Buffer packed_rows;
  const std::int64_t step = panel_depth(depth_);
  const std::size_t block = kernels.b_bytes(step, cols_);
  for (std::int64_t row = 0; row < rows; row += kernels.row_block) {
    const std::int64_t count = std::min(kernels.row_block, rows - row);
    const auto* b = static_cast<const char*>(memory_.data());
    for (std::int64_t k = 0; k < depth_; k += step, b += block) {
      const std::int64_t deep = std::min(step, depth_ - k);
      const MatrixRef part = a.at(row, k);
      const void* rows_of_a = part.data;
      std::int64_t pitch = part.row_stride;
      if (!kernels.reads_in_place(part, count, deep)) {
        void* packed = packed_rows.reserve(kernels.a_bytes(count));
        kernels.pack_a(part, count, deep, packed);
        rows_of_a = packed;
        pitch = kernels.a_pitch;
      }
      kernels.multiply(rows_of_a, pitch, b, count, cols_, deep, c + row * ldc, ldc, accumulate || k > 0);
    }
  }
}

void panel_product(const MatrixRef& a, const MatrixRef& b, std::int64_t rows, std::int64_t cols, std::int64_t depth,
                   float* c, std::int64_t ldc, bool accumulate) {
  INVARIANT(a.dtype == b.dtype, "panel_product: A is ", name_of(a.dtype), ", B ", name_of(b.dtype));
  thread_local PackedPanel panel;
  panel.pack(b, depth, cols);
  panel.product(a, rows, c, ldc, accumulate);
}

}  // namespace coda::cpu
