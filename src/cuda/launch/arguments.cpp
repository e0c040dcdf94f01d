#include "cuda/launch/arguments.h"

#include <cstring>

#include "cuda/emit/distinct.h"
#include "cuda/emit/kernel.h"
#include "cuda/emit/program.h"

namespace coda::cuda {
namespace {

template <class T>
void put(char* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

void fill_arguments(char* at, const SegmentSpec& spec, const BoundSegment& segment) {
  put(at, static_cast<std::int32_t>(segment.rows));
  put(at + 4, static_cast<std::int32_t>(segment.cols));
  char* count = at + 8;
  for (const int operand : counted_operands(spec)) {
    const bool of_rows = spec.program.operand(operand).partials->axis == Axis::Row;
    const TensorView& partials = segment.operands[static_cast<std::size_t>(operand)];
    put(count, static_cast<std::int32_t>(partials.shape(of_rows ? 1 : 0)));
    count += 4;
  }
  char* matrix = at + first_matrix(spec);
  for (const int operand : matrix_operands(spec)) {
    const TensorView& tensor = segment.operands[static_cast<std::size_t>(operand)];
    put(matrix, tensor.data());
    put(matrix + 8, tensor.stride(0));
    put(matrix + 16, tensor.stride(1));
    matrix += kMatrixBytes;
  }
}

}  // namespace coda::cuda
