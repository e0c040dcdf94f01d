// The vector loops an epilogue is made of, one set for each instruction set. All work on rows × cols fp32 values in
// buffers whose rows are padded to kPad floats: a kernel may compute the padding too, but reads and writes caller's
// memory (`MemoryRef`) exactly.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "coda/dtype.h"
#include "coda/ops.h"
#include "coda/program.h"

namespace coda::cpu {

/// Floats to which buffers are padded: the widest vector of any instruction set.
inline constexpr std::int64_t kPad = 16;

inline constexpr std::int64_t padded(std::int64_t count) { return (count + kPad - 1) / kPad * kPad; }

/// A value in buffers. Row r begins at data + r·row_step; when `spread`, the row is that one number.
struct Arg {
  const float* data = nullptr;
  std::int64_t row_step = 0;
  bool spread = false;
};

struct Out {
  float* data = nullptr;
  std::int64_t row_step = 0;
};

/// Elements of a caller's tensor; strides in elements.
struct MemoryRef {
  void* data = nullptr;
  DType dtype = DType::F32;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;

  MemoryRef at(std::int64_t row, std::int64_t col) const {
    const auto bytes = (row * row_stride + col * col_stride) * static_cast<std::int64_t>(size_of(dtype));
    return {static_cast<char*>(data) + bytes, dtype, row_stride, col_stride};
  }
};

struct Extent {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

struct Kernels {
  const char* name;

  void (*map)(Op op, Extent extent, const Arg* args, Out out);
  void (*round)(DType dtype, Extent extent, Arg in, Out out);
  void (*load)(Extent extent, MemoryRef from, Out out);
  void (*store)(Extent extent, Arg in, MemoryRef to, bool accumulate);

  /// Member 0 or 1 of the pairs; the extent is the result's.
  void (*split)(Extent extent, const Pairing& pairing, int member, Arg in, Out out);
  /// The extent is that of the paired columns; `rest` is read only where columns are left over.
  void (*join)(Extent extent, const Pairing& pairing, Arg first, Arg second, Arg rest, Out out);
  /// A row of `period` columns over and over.
  void (*repeat)(Extent extent, std::int64_t period, Arg in, Out out);
  void (*span_sum)(Extent extent, std::int64_t span, Arg in, Out out);

  /// One entry for every `width` columns, the last of what is left.
  void (*reduce_row)(Reduction op, Extent extent, std::int64_t width, Arg in, Out out);
  /// Adds rows, in order, to the running state of each column: `state`, and for LogSumExp the sums one row below it.
  void (*reduce_col)(Reduction op, Extent extent, Arg in, Out state, bool begin);
  /// The result of a column state, over the state's first row.
  void (*finish_col)(Reduction op, std::int64_t cols, Out state);
};

/// The best kernels of this machine.
const Kernels& kernels();

// Null where the build or the machine lacks the instructions.
const Kernels* portable_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace coda::cpu
