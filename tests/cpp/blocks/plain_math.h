// The mathematics of the blocks as plain loops in double, independent of the library. `Rounding` puts a rounding where
// PyTorch stores a tensor, so that the same loops give the truth (F64) and what a stock model computes (BF16).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "coda/tensor.h"

namespace coda::testing_support {

struct Plain {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;

  Plain() = default;
  Plain(std::int64_t r, std::int64_t c) : rows(r), cols(c), values(static_cast<std::size_t>(r * c), 0.0) {}
  double& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * cols + c)]; }
  double at(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * cols + c)]; }

  Tensor tensor(DType dtype) const { return Tensor::from({rows, cols}, values, dtype); }
  Tensor vector(DType dtype) const { return Tensor::from({rows * cols}, values, dtype); }
};

inline Plain plain(const TensorView& view) {
  Plain result(view.shape(0), view.rank() == 2 ? view.shape(1) : 1);
  for (std::int64_t r = 0; r < result.rows; ++r)
    for (std::int64_t c = 0; c < result.cols; ++c)
      result.at(r, c) =
          load_element(view.dtype(), view.data(), r * view.stride(0) + (view.rank() == 2 ? c * view.stride(1) : 0));
  return result;
}

/// Normal deviates times `scale` plus `mean`, rounded to `dtype`, so that a tensor of it holds the same numbers.
inline Plain random_plain(std::mt19937_64& random, std::int64_t rows, std::int64_t cols, DType dtype, double scale = 1,
                          double mean = 0) {
  std::normal_distribution<double> number(mean, scale);
  Plain result(rows, cols);
  for (double& value : result.values) value = round_to(dtype, number(random));
  return result;
}

struct PlainMath {
  DType dtype = DType::F64;  ///< of every stored tensor

  Plain stored(Plain x) const {
    for (double& value : x.values) value = round_to(dtype, value);
    return x;
  }

  Plain rms_norm(const Plain& x, const Plain& gamma, double eps) const {
    Plain result = x;
    for (std::int64_t r = 0; r < x.rows; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < x.cols; ++c) sum += x.at(r, c) * x.at(r, c);
      const double factor = 1 / std::sqrt(sum / static_cast<double>(x.cols) + eps);
      for (std::int64_t c = 0; c < x.cols; ++c)
        result.at(r, c) = gamma.values[static_cast<std::size_t>(c)] * round_to(dtype, x.at(r, c) * factor);
    }
    return stored(result);
  }

  /// x·weightᵀ + bias; weight: (out, in).
  Plain linear(const Plain& x, const Plain& weight, const std::optional<Plain>& bias = {}) const {
    Plain result(x.rows, weight.rows);
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t n = 0; n < weight.rows; ++n) {
        double sum = bias ? bias->values[static_cast<std::size_t>(n)] : 0;
        for (std::int64_t k = 0; k < x.cols; ++k) sum += x.at(r, k) * weight.at(n, k);
        result.at(r, n) = sum;
      }
    return stored(result);
  }

  Plain add(const Plain& a, const Plain& b) const {
    Plain result = a;
    for (std::size_t i = 0; i < a.values.size(); ++i) result.values[i] += b.values[i];
    return stored(result);
  }

  Plain swiglu(const Plain& gate, const Plain& up) const {
    Plain result = gate;
    for (std::size_t i = 0; i < gate.values.size(); ++i) {
      const double g = gate.values[i];
      result.values[i] = round_to(dtype, g / (1 + std::exp(-g))) * up.values[i];
    }
    return stored(result);
  }

  /// Half-split rotation of whole heads; row r is at position first + r.
  Plain rope(const Plain& x, std::int64_t head, const std::vector<float>& frequencies, std::int64_t first = 0) const {
    Plain result = x;
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t c = 0; c < x.cols; ++c) {
        const std::int64_t in_head = c % head, pair = in_head % (head / 2);
        const float angle = static_cast<float>(first + r) * frequencies[static_cast<std::size_t>(pair)];
        const double cosine = round_to(dtype, std::cos(static_cast<double>(angle)));
        const double sine = round_to(dtype, std::sin(static_cast<double>(angle)));
        const bool is_first = in_head < head / 2;
        const double other = x.at(r, is_first ? c + head / 2 : c - head / 2);
        result.at(r, c) = round_to(dtype, x.at(r, c) * cosine) + round_to(dtype, (is_first ? -other : other) * sine);
      }
    return stored(result);
  }

  /// Query t sees keys 0 … S − T + t.
  Plain attention(const Plain& q, const Plain& k, const Plain& v, std::int64_t heads, std::int64_t kv_heads,
                  double scale = 0) const {
    const std::int64_t head = q.cols / heads;
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(head));
    Plain result(q.rows, q.cols);
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t t = 0; t < q.rows; ++t) {
        const std::int64_t kv = h / (heads / kv_heads) * head, seen = k.rows - q.rows + t + 1;
        std::vector<double> weights(static_cast<std::size_t>(seen));
        double largest = -INFINITY, sum = 0;
        for (std::int64_t s = 0; s < seen; ++s) {
          double score = 0;
          for (std::int64_t d = 0; d < head; ++d) score += q.at(t, h * head + d) * k.at(s, kv + d);
          weights[static_cast<std::size_t>(s)] = score * scale;
          largest = std::max(largest, score * scale);
        }
        for (double& weight : weights) sum += weight = std::exp(weight - largest);
        for (std::int64_t d = 0; d < head; ++d) {
          double total = 0;
          for (std::int64_t s = 0; s < seen; ++s)
            total += round_to(dtype, weights[static_cast<std::size_t>(s)]) * v.at(s, kv + d);
          result.at(t, h * head + d) = total / sum;
        }
      }
    return stored(result);
  }
};

/// −log softmax(logits)[target]
inline double cross_entropy(const Plain& logits, std::int64_t row, std::int64_t target) {
  double largest = -INFINITY, sum = 0;
  for (std::int64_t c = 0; c < logits.cols; ++c) largest = std::max(largest, logits.at(row, c));
  for (std::int64_t c = 0; c < logits.cols; ++c) sum += std::exp(logits.at(row, c) - largest);
  return largest + std::log(sum) - logits.at(row, target);
}

inline double root_mean_square(const Plain& x) {
  double sum = 0;
  for (const double value : x.values) sum += value * value;
  return x.values.empty() ? 0 : std::sqrt(sum / static_cast<double>(x.values.size()));
}

inline Plain difference(const Plain& a, const Plain& b) {
  Plain result = a;
  for (std::size_t i = 0; i < a.values.size(); ++i) result.values[i] -= b.values[i];
  return result;
}

/// f32: every element within `tolerance` of the truth, relative to the largest.
inline void expect_close(const TensorView& got, const Plain& truth, double tolerance = 1e-5) {
  const Plain values = plain(got);
  ASSERT_EQ(values.rows, truth.rows);
  ASSERT_EQ(values.cols, truth.cols);
  double largest = 0;
  for (const double value : truth.values) largest = std::max(largest, std::abs(value));
  for (std::int64_t r = 0; r < truth.rows; ++r)
    for (std::int64_t c = 0; c < truth.cols; ++c)
      ASSERT_LE(std::abs(values.at(r, c) - truth.at(r, c)), tolerance * largest)
          << "at " << r << ", " << c << ": " << values.at(r, c) << " for " << truth.at(r, c);
}

/// bf16: an error of at most twice what the stock order of roundings makes, plus one rounding of the data.
inline void expect_twice_stock(const TensorView& got, const Plain& truth, const Plain& stock) {
  const Plain values = plain(got);
  ASSERT_EQ(values.values.size(), truth.values.size());
  const double ours = root_mean_square(difference(values, truth));
  const double theirs = root_mean_square(difference(stock, truth));
  const double rounding = root_mean_square(truth) * 0x1p-9;
  EXPECT_LE(ours, 2 * theirs + rounding) << "stock's own error is " << theirs;
}

}  // namespace coda::testing_support
