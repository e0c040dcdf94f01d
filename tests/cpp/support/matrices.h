// Matrices for tests of backends: inputs of every layout, and outputs that start as NaN between canaries.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "coda/tensor.h"

namespace coda::testing_support {

/// How a matrix lies in memory.
enum class Layout : std::uint8_t {
  Plain,
  Padded,   ///< rows apart by more than their length
  Stepped,  ///< columns two elements apart
  Transposed,
  RowsReversed,   ///< negative row stride
  ColsReversed,   ///< negative column stride
  RowsBroadcast,  ///< row stride 0: every row is one
  ColsBroadcast,  ///< column stride 0
};
inline constexpr Layout kLayouts[] = {Layout::Plain,         Layout::Padded,       Layout::Stepped,
                                      Layout::Transposed,    Layout::RowsReversed, Layout::ColsReversed,
                                      Layout::RowsBroadcast, Layout::ColsBroadcast};
/// The first of kLayouts that give each element its own memory: what an output may have.
inline constexpr int kOutputLayouts = 6;

/// A view with memory behind it.
struct Matrix {
  Tensor memory;
  TensorView view;
};

/// A rows × cols matrix of unset elements. Bytes outside the view hold kCanary.
inline constexpr unsigned char kCanary = 0xa5;
inline Matrix make_matrix(std::int64_t rows, std::int64_t cols, DType dtype, Layout layout) {
  constexpr std::int64_t margin = 19;  // elements before the first and after the last
  std::int64_t strides[] = {cols, 1};
  std::int64_t first = margin;
  const auto flip = [&](int axis, std::int64_t extent) {
    if (extent > 0) first += (extent - 1) * strides[axis];
    strides[axis] = -strides[axis];
  };
  switch (layout) {
    case Layout::Plain: break;
    case Layout::Padded: strides[0] = cols + 5; break;
    case Layout::Stepped: strides[0] = 2 * cols + 1, strides[1] = 2; break;
    case Layout::Transposed: strides[0] = 1, strides[1] = rows + 3; break;
    case Layout::RowsReversed: flip(0, rows); break;
    case Layout::ColsReversed: flip(1, cols); break;
    case Layout::RowsBroadcast: strides[0] = 0; break;
    case Layout::ColsBroadcast: strides[1] = 0; break;
  }
  Matrix matrix{Tensor::empty({2 * margin + (rows + 3) * (2 * cols + 5)}, dtype), {}};
  std::memset(matrix.memory.view().data(), kCanary,
              static_cast<std::size_t>(matrix.memory.view().size()) * size_of(dtype));
  const std::int64_t shape[] = {rows, cols};
  char* data = matrix.memory.data<char>() + first * static_cast<std::int64_t>(size_of(dtype));
  matrix.view = TensorView(data, dtype, shape, strides);
  return matrix;
}

inline void set(const TensorView& view, std::int64_t row, std::int64_t col, double value) {
  store_element(view.dtype(), view.data(), row * view.stride(0) + col * view.stride(1), value);
}

/// Whole numbers in [low, high].
inline Matrix random_integers(std::mt19937_64& random, std::int64_t rows, std::int64_t cols, DType dtype, Layout layout,
                              int low = -3, int high = 3) {
  Matrix matrix = make_matrix(rows, cols, dtype, layout);
  std::uniform_int_distribution number(low, high);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) set(matrix.view, r, c, number(random));
  return matrix;
}

/// Normal deviates, rounded to the dtype.
inline Matrix random_normal(std::mt19937_64& random, std::int64_t rows, std::int64_t cols, DType dtype, Layout layout) {
  Matrix matrix = make_matrix(rows, cols, dtype, layout);
  std::normal_distribution<double> number;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) set(matrix.view, r, c, number(random));
  return matrix;
}

/// An output: NaN inside the view, canaries around it.
inline Matrix make_output(std::int64_t rows, std::int64_t cols, DType dtype, Layout layout = Layout::Padded) {
  Matrix matrix = make_matrix(rows, cols, dtype, layout);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) set(matrix.view, r, c, std::numeric_limits<double>::quiet_NaN());
  return matrix;
}

/// Fails when a byte outside the view is no canary any more.
inline void expect_canaries(const Matrix& matrix) {
  const auto size = static_cast<std::int64_t>(size_of(matrix.view.dtype()));
  const auto* memory = matrix.memory.data<unsigned char>();
  const std::int64_t first = static_cast<const unsigned char*>(matrix.view.data()) - memory;
  std::vector<bool> inside(static_cast<std::size_t>(matrix.memory.view().size() * size), false);
  for (std::int64_t r = 0; r < matrix.view.shape(0); ++r)
    for (std::int64_t c = 0; c < matrix.view.shape(1); ++c)
      for (std::int64_t byte = 0; byte < size; ++byte)
        inside[static_cast<std::size_t>(first + (r * matrix.view.stride(0) + c * matrix.view.stride(1)) * size +
                                        byte)] = true;
  for (std::size_t i = 0; i < inside.size(); ++i)
    ASSERT_TRUE(inside[i] || memory[i] == kCanary) << "byte " << i << " outside the output was written";
}

/// All elements, row by row, as doubles.
inline std::vector<double> values_of(const TensorView& view) {
  std::vector<double> values;
  for (std::int64_t r = 0; r < view.shape(0); ++r)
    for (std::int64_t c = 0; c < view.shape(1); ++c) values.push_back(view.at(r, c));
  return values;
}

}  // namespace coda::testing_support
