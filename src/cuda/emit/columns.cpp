// Reductions down columns.
#include <algorithm>

#include "cuda/emit/program_emitter.h"

namespace coda::cuda {

void ProgramEmitter::emit_columns() {
  if (columns_.empty()) return;
  out_.line();
  out_.line("// Partials of column `col` for the 64 rows from `row` on: what the four warps have of it.");
  out_.line("__device__ __forceinline__ static void columns(const Arguments& a, i32 row, i32 col, const float* lines,");
  out_.open("                                               int stride, int stride_of_reductions)");
  each_store([&](int operand, NodeId value) {
    const auto which = std::ranges::find(columns_, value) - columns_.begin();
    if (which == static_cast<std::ptrdiff_t>(columns_.size())) return;
    out_.line("store_partial<", column_reduction(program_.node(value).reduction), ">(a.", scope_.argument(operand),
              ", row, col, lines", which > 0 ? concat(" + ", which, " * stride_of_reductions") : "", ", stride);");
  });
  out_.close();
}

}  // namespace coda::cuda
