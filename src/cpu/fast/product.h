// The accumulators of a task: rows of A, packed once for all tasks, times a panel of B, packed by the task.
#pragma once

#include <cstdint>
#include <vector>

#include "coda/problem.h"
#include "cpu/buffer.h"
#include "cpu/panel_kernels.h"

namespace coda::cpu {

/// A stretch of the depth that is summed in one go.
struct DepthBlock {
  int part = 0;  ///< of the terms of the product; several with ConcatK
  std::int64_t first = 0;
  std::int64_t depth = 0;
};

/// Rows row … row + rows of the A matrices of a product.
class RowBand {
 public:
  /// `parts`: the A matrices, their extents M × depth.
  RowBand(const std::vector<TensorView>& parts, std::int64_t row, std::int64_t rows, Buffer& memory);

  /// Pieces of work that pack the band; each may run on a thread of its own.
  std::int64_t pieces() const;
  void pack(std::int64_t piece) const;

  const std::vector<DepthBlock>& blocks() const { return blocks_; }
  const PanelKernels& kernels() const { return kernels_; }

  /// A panel of B: columns col … col + cols of the matrices `parts`.
  struct Panel {
    const std::vector<TensorView>* parts = nullptr;
    std::int64_t col = 0;
    std::int64_t cols = 0;
    Buffer* memory = nullptr;
    bool keep = false;    ///< pack all of it, for further blocks of rows
    bool packed = false;  ///< it has been
  };

  /// C = the sum of A·B over all blocks, for `rows` rows from `row` of the band on.
  void multiply(Panel& panel, std::int64_t row, std::int64_t rows, float* c, std::int64_t ldc) const;

 private:
  struct Rows {
    const void* data;
    std::int64_t pitch;
  };
  MatrixRef block_of(const DepthBlock& block) const;
  Rows packed_rows(std::size_t block, std::int64_t row) const;

  const PanelKernels& kernels_;
  const std::vector<TensorView>& parts_;
  std::int64_t row_;
  std::int64_t rows_;
  std::vector<DepthBlock> blocks_;
  std::size_t block_bytes_ = 0;
  char* packed_ = nullptr;
};

}  // namespace coda::cpu
