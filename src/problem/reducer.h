// What a Reduction means, in double and in order: for partials that are made and for partials that are finished (which
// is the same reduction of the partials).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "coda/program.h"
#include "coda/tensor.h"

namespace coda {

class Reducer {
 public:
  explicit Reducer(Reduction reduction) : reduction_(reduction), largest_(-std::numeric_limits<double>::infinity()) {}

  void add(double value) {
    switch (reduction_) {
      case Reduction::Sum: sum_ += value; break;
      case Reduction::Max: take_largest(value); break;
      case Reduction::LogSumExp: add_exponential(value); break;
    }
  }

  double result() const {
    if (reduction_ == Reduction::Sum) return sum_;
    if (reduction_ == Reduction::Max || !std::isfinite(largest_)) return largest_;
    return largest_ + std::log(sum_);
  }

 private:
  // Keeps NaN, which compares with nothing.
  void take_largest(double value) {
    if (std::isnan(value) || value > largest_) largest_ = std::isnan(largest_) ? largest_ : value;
  }

  // sum_ is Σ exp(value − largest_): no exponential overflows, and no infinity is subtracted from itself.
  void add_exponential(double value) {
    const double before = largest_;
    take_largest(value);
    if (!std::isfinite(largest_)) return;
    if (value > before)
      sum_ = sum_ * std::exp(before - value) + 1;
    else
      sum_ += std::exp(value - largest_);
  }

  Reduction reduction_;
  double largest_;
  double sum_ = 0;
};

/// Entry (row, col) of a bound operand (see BoundSegment), in double.
inline double entry(const TensorView& tensor, std::int64_t row, std::int64_t col) {
  return load_element(tensor.dtype(), tensor.data(), row * tensor.stride(0) + col * tensor.stride(1));
}

/// What loading partials gives for line `line`: row `line` of the output along axis Row, column `line` along axis Col.
inline double finish(const TensorView& tensor, const Partials& partials, std::int64_t line) {
  Reducer reducer(partials.op);
  const bool by_row = partials.axis == Axis::Row;
  for (std::int64_t i = 0; i < tensor.shape(by_row ? 1 : 0); ++i)
    reducer.add(by_row ? entry(tensor, line, i) : entry(tensor, i, line));
  return reducer.result();
}

}  // namespace coda
