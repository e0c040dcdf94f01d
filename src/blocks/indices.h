// Vectors of token numbers.
#pragma once

#include <cstdint>
#include <string_view>

#include "coda/tensor.h"

namespace coda {

/// Errors: ValueError unless (T,); TypeError unless i32 or i64.
void require_indices(std::string_view call, std::string_view name, const TensorView& indices);

std::int64_t index_at(const TensorView& indices, std::int64_t row);

/// Errors: as require_indices; ValueError unless `rows` long; IndexError for a target that is neither in [0,vocabulary)
/// nor `ignore_index`.
void check_targets(std::string_view call, const TensorView& targets, std::int64_t rows, std::int64_t vocabulary,
                   std::int64_t ignore_index);

}  // namespace coda
