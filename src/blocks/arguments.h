// Checks of the blocks' arguments. The call and `name` are what errors begin with.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "blocks/partials.h"
#include "coda/blocks.h"
#include "problem/factors.h"

namespace coda {

/// An extent an argument must have, and what it is ("d, the width of the stream"). −1: any.
struct Extent {
  std::int64_t value;
  std::string_view meaning;
};

/// A call whose arguments are checked, and the device they must be on.
struct Caller {
  std::string_view name;
  Home home;
};

/// Errors: ValueError unless the argument has just these extents and is at the caller's home.
void require_shape(const Caller& caller, std::string_view name, const TensorView& tensor,
                   std::initializer_list<Extent> extents);
void require_shape_if_given(const Caller& caller, std::string_view name, const std::optional<TensorView>& tensor,
                            std::initializer_list<Extent> extents);

/// The caller at home where the stream is. Errors: ValueError unless x, h and sum_sq fit together and have a width.
Caller require_stream(std::string_view call, const NormedStream& stream);

/// Errors: ValueError for a weight of another length than `width`.
void require_norm(const Caller& caller, std::string_view name, const RmsNorm& norm, std::int64_t width);

/// The delayed norm of a stream whose norm is `norm`.
epilogues::DelayedRms delayed(const NormedStream& stream, const RmsNorm& norm);

}  // namespace coda
