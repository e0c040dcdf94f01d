// Gradients of the blocks against central differences of the plain loops in double.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <string>

#include "blocks/plain_math.h"
#include "support/differences.h"

namespace coda::testing_support {

using Plains = std::map<std::string, Plain>;
using PlainLoss = std::function<double(const Plains& parameters)>;

/// Σ weights·values
inline double weighed(const Plain& values, const Plain& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < values.values.size(); ++i) sum += values.values[i] * weights.values[i];
  return sum;
}

inline double largest_of(const Plain& values) {
  double largest = 0;
  for (const double value : values.values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// Compares up to `count` entries of a gradient with differences of the loss, to `tolerance` of the largest, or of
/// `scale` if that is larger: of terms that cancel.
inline void expect_gradient(const TensorView& got, const std::string& of, const Plains& parameters,
                            const PlainLoss& loss, std::mt19937_64& random, std::size_t count = 40,
                            double tolerance = 2e-5, double scale = 0) {
  Plains changed = parameters;
  Plain& values = changed.at(of);
  const Plain ours = plain(got);
  ASSERT_EQ(ours.values.size(), values.values.size()) << of;
  const double largest = std::max(largest_of(ours), scale);
  double worst = 0;
  std::size_t worst_at = 0;
  for (std::size_t i = 0; i < std::min(count, values.values.size()); ++i) {
    const std::size_t at = values.values.size() <= count ? i : random() % values.values.size();
    const double centre = values.values[at];
    const RealFunction along = [&](const std::vector<double>& entry) {
      values.values[at] = entry[0];
      return loss(changed);
    };
    const double truth = central_difference(along, {centre}, 0, 1e-3);
    values.values[at] = centre;
    const double error = std::abs(ours.values[at] - truth);
    if (error > worst || std::isnan(error)) {
      worst = error;
      worst_at = at;
    }
  }
  EXPECT_LE(worst, tolerance * largest) << of << " at " << worst_at << ": " << ours.values[worst_at];
}

}  // namespace coda::testing_support
