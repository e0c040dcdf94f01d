// Numerical derivatives of real functions, and the comparison of a claimed derivative with them.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "coda/ops.h"

namespace coda::testing_support {

using RealFunction = std::function<double(const std::vector<double>& args)>;

/// Derivative along one argument by central differences of fourth order.
inline double central_difference(const RealFunction& function, std::vector<double> args, std::size_t along,
                                 double step) {
  const double centre = args[along];
  const auto at = [&](int steps) {
    args[along] = centre + steps * step;
    return function(args);
  };
  return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step);
}

/// The same, or nothing beside a kink or a jump: there two step lengths disagree.
inline std::optional<double> difference(const RealFunction& function, const std::vector<double>& args,
                                        std::size_t along) {
  constexpr double kStep = 1e-3;
  const double coarse = central_difference(function, args, along, kStep);
  const double fine = central_difference(function, args, along, kStep / 2);
  if (!(std::abs(coarse - fine) <= 1e-7 * (1 + std::abs(fine)))) return {};
  return fine;
}

/// Draws `points` arguments from `domain` and compares claimed derivatives with differences, to 1e-6 relative. Says
/// what is wrong, or nothing.
inline std::optional<std::string> compare_with_differences(const RealFunction& function,
                                                           const std::vector<RealFunction>& derivatives,
                                                           const std::vector<Interval>& domain, int points,
                                                           std::uint64_t seed) {
  std::mt19937_64 random(seed);
  int compared = 0;
  for (int point = 0; point < points; ++point) {
    std::vector<double> args;
    for (const Interval& interval : domain)
      args.push_back(std::uniform_real_distribution(interval.low, interval.high)(random));
    for (std::size_t i = 0; i < args.size(); ++i) {
      const std::optional<double> expected = difference(function, args, i);
      if (!expected) continue;
      ++compared;
      const double got = derivatives[i](args);
      if (std::abs(got - *expected) <= 1e-6 * std::abs(*expected) + 1e-9) continue;
      std::ostringstream text;
      text << "seed " << seed << ", derivative by argument " << i << " at (";
      for (const double arg : args) text << ' ' << arg;
      text << " ) is " << got << ", differences give " << *expected;
      return text.str();
    }
  }
  const int drawn = points * static_cast<int>(domain.size());
  if (compared < drawn * 9 / 10)
    return "only " + std::to_string(compared) + " of " + std::to_string(drawn) + " compared";
  return {};
}

/// A new seed each run; a failing test prints it.
inline std::uint64_t fresh_seed() { return std::random_device{}(); }

}  // namespace coda::testing_support
