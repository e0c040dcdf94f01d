// The matrix products of one segment: what the views of the factors mean.
#pragma once

#include <cstddef>
#include <vector>

#include "coda/problem.h"

namespace coda {

/// One term: a is (rows of the segment, depth), b is (depth, columns of the segment).
struct Product {
  TensorView a;
  TensorView b;
};

/// The products whose sum is accumulator `which` (0 or 1) of a segment, in order; several only with ConcatK.
std::vector<Product> products_of(const Problem& problem, std::size_t segment, int which);

}  // namespace coda
