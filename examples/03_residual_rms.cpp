// A norm without a norm kernel: the first product leaves x·γ and partial sums of x², the second multiplies its
// accumulator by the row factor they give. Checked against the plain formula in double.
#include <cmath>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

#include "coda/coda.h"

namespace {

constexpr std::int64_t kTokens = 5, kWidth = 192, kOut = 96;
constexpr double kEps = 1e-6;

coda::Tensor random_tensor(std::initializer_list<std::int64_t> shape) {
  static std::mt19937 engine(std::random_device{}());
  std::normal_distribution<float> normal;
  coda::Tensor tensor = coda::Tensor::empty(shape, coda::DType::F32);
  for (float& value : std::span(tensor.data<float>(), static_cast<std::size_t>(tensor.view().size())))
    value = normal(engine);
  return tensor;
}

// norm(y·W0ᵀ + x0)·W1ᵀ at one position, in double.
double plain(const coda::TensorView& y, const coda::TensorView& w0, const coda::TensorView& x0,
             const coda::TensorView& gamma, const coda::TensorView& w1, std::int64_t row, std::int64_t col) {
  double squares = 0, sum = 0;
  for (std::int64_t c = 0; c < kWidth; ++c) {
    double x = x0.at(row, c);
    for (std::int64_t k = 0; k < kWidth; ++k) x += y.at(row, k) * w0.at(c, k);
    squares += x * x;
    sum += x * gamma.at(0, c) * w1.at(col, c);
  }
  return sum / std::sqrt(squares / kWidth + kEps);
}

}  // namespace

int main() {
  const coda::Tensor y = random_tensor({kTokens, kWidth}), w0 = random_tensor({kWidth, kWidth}),
                     x0 = random_tensor({kTokens, kWidth}), gamma = random_tensor({1, kWidth}),
                     w1 = random_tensor({kOut, kWidth});
  const auto empty = [](std::int64_t rows, std::int64_t cols) {
    return coda::Tensor::empty({rows, cols}, coda::DType::F32);
  };
  const coda::Tensor x = empty(kTokens, kWidth), h = empty(kTokens, kWidth), sum_sq = empty(kTokens, kWidth / 64),
                     out = empty(kTokens, kOut);

  coda::gemm(y, w0.view().transposed(), coda::epilogues::residual_rms(),
             {{"residual", x0}, {"gamma", gamma}, {"x", x}, {"h", h}, {"sum_sq", sum_sq}});
  coda::gemm(h, w1.view().transposed(), coda::epilogues::rms({.norm = {.count = kWidth, .eps = kEps}}),
             {{"sum_sq", sum_sq}, {"out", out}});

  double error = 0, largest = 0;
  for (std::int64_t row = 0; row < kTokens; ++row)
    for (std::int64_t col = 0; col < kOut; ++col) {
      const double exact = plain(y, w0, x0, gamma, w1, row, col);
      largest = std::max(largest, std::abs(exact));
      error = std::max(error, std::abs(out.view().at(row, col) - exact));
    }
  std::printf("largest error %.1e of values up to %.1f\n", error, largest);
  return error < 1e-5 * largest ? 0 : 1;
}
