// Vectors of token numbers, in host memory or on a GPU.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "blocks/arguments.h"

namespace coda {

/// Errors: ValueError unless (T,), in host memory or at the caller's home; TypeError unless i32 or i64.
void require_indices(const Caller& caller, std::string_view name, const TensorView& indices);

/// The numbers; those on a GPU are waited for. Errors: as require_indices.
std::vector<std::int64_t> read_indices(const Caller& caller, std::string_view name, const TensorView& indices,
                                       const Execution& where);

/// The numbers as a tensor (T,) i64 on a device.
Tensor indices_on(Device device, std::span<const std::int64_t> indices, const Execution& where);

/// The targets, checked. Errors: as require_indices; ValueError unless `rows` long; IndexError for a target that is
/// neither in [0,vocabulary) nor `ignore_index`.
std::vector<std::int64_t> read_targets(const Caller& caller, const TensorView& targets, std::int64_t rows,
                                       std::int64_t vocabulary, std::int64_t ignore_index, const Execution& where);

}  // namespace coda
