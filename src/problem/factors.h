// Checks of the two factors of a product, and the extents they give it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coda/problem.h"

namespace coda {

/// Extents of the output: rows of each part of A, columns of each part of B (one entry unless Concat), and K.
struct Extents {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> cols;
  std::int64_t depth = 0;
};

/// Errors: ValueError, TypeError, NotImplementedError.
Extents check_factors(std::string_view call, const Factor& a, const Factor& b);

/// The device every tensor of a call must be on, and whose it is: "A", "operand 'x'".
struct Home {
  Device device{};
  std::string owner{};
};

/// Refuses a tensor without memory or on another device. `what` names it: "B part 1", "operand 'bias'".
void require_memory(std::string_view call, std::string_view what, const TensorView& tensor, const Home& home);

}  // namespace coda
