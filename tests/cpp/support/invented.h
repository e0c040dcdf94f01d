// Problems on a GPU that is not there: tensors with invented, aligned addresses, for looking at kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "coda/problem.h"

namespace coda::testing_support {

inline TensorView invented(std::initializer_list<std::int64_t> shape, DType dtype,
                           Device device = {DeviceKind::Cuda, 0}) {
  static std::uintptr_t next = 0;
  next += std::uintptr_t{1} << 40;  // further apart than any operand is large
  return {reinterpret_cast<void*>(next), dtype, shape, device};
}

/// A matrix of rows × cols whose rows (or, transposed, columns) are contiguous.
inline TensorView invented_matrix(std::int64_t rows, std::int64_t cols, DType dtype, bool transposed) {
  return transposed ? invented({cols, rows}, dtype).transposed() : invented({rows, cols}, dtype);
}

/// True for an operand that holds the column numbers of a SelectCol.
inline bool selects(const Program& program, const Operand& operand) {
  return std::ranges::any_of(program.nodes(), [&](const Node& node) {
    if (node.kind != NodeKind::SelectCol) return false;
    const Node& index = program.node(node.args[1]);
    return index.kind == NodeKind::Load && program.operand(index.index).name == operand.name;
  });
}

/// Tensors for every operand of a program: tiles and rows of `dtype` where it declares none, other vectors of f32.
inline Operands invented_operands(const Program& program, std::int64_t rows, std::int64_t cols, DType dtype) {
  Operands operands;
  for (const Operand& operand : program.operands()) {
    const bool wide = operand.shape == Shape::Col || operand.shape == Shape::Scalar || operand.partials;
    std::vector<std::int64_t> shape = operand_shape(operand, rows, cols);
    std::ranges::replace(shape, std::int64_t{-1}, std::int64_t{9});  // partials of an open number
    const DType open = selects(program, operand) ? DType::I64 : wide ? DType::F32 : dtype;
    TensorView tensor = invented({1}, operand.dtype.value_or(open));
    operands.push_back({operand.name, TensorView(tensor.data(), tensor.dtype(), shape, tensor.device())});
  }
  return operands;
}

}  // namespace coda::testing_support
