// The gradient by an embedding.
#pragma once

#include <cstdint>
#include <span>

#include "coda/tensor.h"

namespace coda {

/// Row numbers[t] of into (V,d) += row t of d_x (T,d), on the CPU: the rows of one number are summed in the order of t
/// in double and added once, so that threads change nothing.
void add_embedding_gradient(const TensorView& d_x, std::span<const std::int64_t> numbers, const TensorView& into);

}  // namespace coda
