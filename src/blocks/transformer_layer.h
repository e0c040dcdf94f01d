// Checks of a decoder layer's arguments.
#pragma once

#include <cstdint>

#include "blocks/arguments.h"

namespace coda {

/// Errors: ValueError for a configuration that makes no sense and for weights that do not fit it and a stream of
/// `width` columns.
void require_layer(const Caller& caller, const LayerWeights& weights, const LayerConfig& config, std::int64_t width);

}  // namespace coda
