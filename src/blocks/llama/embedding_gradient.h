// The gradient by an embedding.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "coda/backend.h"
#include "coda/tensor.h"

namespace coda {

/// Row numbers[t] of into (V,d) += row t of d_x (T,d), where both are: the rows of one number are summed in the order
/// of t in double and added once, so that threads change nothing. Errors: as cuda::launch_add_rows.
void add_embedding_gradient(std::string_view call, const TensorView& d_x, std::span<const std::int64_t> numbers,
                            const TensorView& into, const Execution& where);

}  // namespace coda
