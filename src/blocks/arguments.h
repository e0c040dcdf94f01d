// Checks of the blocks' arguments. `call` and `name` are what errors begin with.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "coda/blocks.h"

namespace coda {

/// An extent an argument must have, and what it is ("d, the width of the stream"). −1: any.
struct Extent {
  std::int64_t value;
  std::string_view meaning;
};

/// Errors: ValueError unless the argument has just these extents; NotImplementedError unless it is in host memory.
void require_shape(std::string_view call, std::string_view name, const TensorView& tensor,
                   std::initializer_list<Extent> extents);
void require_shape_if_given(std::string_view call, std::string_view name, const std::optional<TensorView>& tensor,
                            std::initializer_list<Extent> extents);

/// Errors: ValueError unless x, h and sum_sq fit together and have a width.
void require_stream(std::string_view call, const NormedStream& stream);

/// Errors: ValueError for a weight of another length than `width`.
void require_norm(std::string_view call, std::string_view name, const RmsNorm& norm, std::int64_t width);

/// The partial width that leaves at most 64 partials for `columns`, which is what a load of them finishes.
std::int64_t partial_width_for(std::int64_t columns);
std::int64_t partial_count_for(std::int64_t columns);

/// The delayed norm of a stream whose norm is `norm`.
epilogues::DelayedRms delayed(const NormedStream& stream, const RmsNorm& norm);

}  // namespace coda
