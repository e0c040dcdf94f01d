#include "cpu/fast/product.h"

#include <algorithm>

namespace coda::cpu {
namespace {

// Rows packed as one piece: a multiple of what every kernel's blocks of packed rows end on.
constexpr std::int64_t kPieceRows = 64;

MatrixRef matrix_of(const TensorView& view) { return {view.data(), view.dtype(), view.stride(0), view.stride(1)}; }

std::vector<DepthBlock> depth_blocks(const std::vector<TensorView>& parts) {
  std::vector<DepthBlock> blocks;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::int64_t depth = parts[part].shape(1);
    const std::int64_t step = panel_depth(depth);
    for (std::int64_t k = 0; k < depth; k += step)
      blocks.push_back({static_cast<int>(part), k, std::min(step, depth - k)});
  }
  return blocks;
}

}  // namespace

RowBand::RowBand(const std::vector<TensorView>& parts, std::int64_t row, std::int64_t rows, Buffer& memory)
    : kernels_(panel_kernels(parts[0].dtype())), parts_(parts), row_(row), rows_(rows), blocks_(depth_blocks(parts)) {
  block_bytes_ = kernels_.a_bytes(rows);
  packed_ = static_cast<char*>(memory.reserve(block_bytes_ * blocks_.size()));
}

MatrixRef RowBand::block_of(const DepthBlock& block) const {
  return matrix_of(parts_[static_cast<std::size_t>(block.part)]).at(row_, block.first);
}

std::int64_t RowBand::pieces() const {
  const std::int64_t pieces = (rows_ + kPieceRows - 1) / kPieceRows;
  const auto is_packed = [&](const DepthBlock& b) { return !kernels_.reads_in_place(block_of(b), rows_, b.depth); };
  return std::ranges::any_of(blocks_, is_packed) ? pieces : 0;
}

void RowBand::pack(std::int64_t piece) const {
  const std::int64_t row = piece * kPieceRows;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const MatrixRef block = block_of(blocks_[i]);
    if (kernels_.reads_in_place(block, rows_, blocks_[i].depth)) continue;
    char* to = packed_ + i * block_bytes_ + kernels_.a_bytes(row);
    kernels_.pack_a(block.at(row, 0), std::min(kPieceRows, rows_ - row), blocks_[i].depth, to);
  }
}

RowBand::Rows RowBand::packed_rows(std::size_t i, std::int64_t row) const {
  const MatrixRef block = block_of(blocks_[i]);
  if (kernels_.reads_in_place(block, rows_, blocks_[i].depth)) return {block.at(row, 0).data, block.row_stride};
  return {packed_ + i * block_bytes_ + kernels_.a_bytes(row), kernels_.a_pitch};
}

void RowBand::multiply(Panel& panel, std::int64_t row, std::int64_t rows, float* c, std::int64_t ldc) const {
  if (blocks_.empty())
    for (std::int64_t r = 0; r < rows; ++r) std::fill_n(c + r * ldc, panel.cols, 0.0f);
  const std::size_t bytes = kernels_.b_bytes(kPanelDepth, panel.cols);
  const std::size_t kept = panel.keep ? blocks_.size() : 1;
  auto* memory = static_cast<char*>(panel.memory->reserve(bytes * kept));
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const DepthBlock& block = blocks_[i];
    char* b = memory + (panel.keep ? i * bytes : 0);
    if (!panel.packed) {
      const MatrixRef whole = matrix_of((*panel.parts)[static_cast<std::size_t>(block.part)]);
      kernels_.pack_b(whole.at(block.first, panel.col), block.depth, panel.cols, b);
    }
    for (std::int64_t done = 0; done < rows; done += kernels_.row_block) {
      const Rows a = packed_rows(i, row + done);
      kernels_.multiply(a.data, a.pitch, b, std::min(kernels_.row_block, rows - done), panel.cols, block.depth,
                        c + done * ldc, ldc, i > 0);
    }
  }
  panel.packed = panel.keep;
}

}  // namespace coda::cpu
