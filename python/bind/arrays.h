// Leading batch dimensions: a tensor of any rank as the matrix or vector the core works on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "torch_tensors.h"

namespace coda::python {

using Extents = std::vector<std::int64_t>;

inline std::int64_t product(std::span<const std::int64_t> extents) {
  std::int64_t result = 1;
  for (const std::int64_t extent : extents) result *= extent;
  return result;
}

/// Stride of the first `count` axes taken as one, or nothing when they do not lie evenly in memory.
inline std::optional<std::int64_t> joint_stride(const Array& array, int count) {
  std::int64_t stride = 0, next = -1;
  for (int axis = count - 1; axis >= 0; --axis) {
    const std::int64_t extent = array.shape[static_cast<std::size_t>(axis)];
    const std::int64_t own = array.strides[static_cast<std::size_t>(axis)];
    if (extent == 0) return 0;
    if (extent == 1) continue;
    if (next == -1)
      stride = own;
    else if (own != next)
      return {};
    next = own * extent;
  }
  return stride;
}

/// `array` with its first `count` axes joined into one: the same memory, or for an input that does not lie evenly a
/// copy. Errors: ValueError for an output that does not.
inline Array join_leading(Array array, int count, const Place& place, Access access) {
  if (count == 1) return array;
  const auto tail = static_cast<std::ptrdiff_t>(count);
  const std::int64_t rows = product(std::span(array.shape).first(static_cast<std::size_t>(count)));
  Extents shape{rows}, strides{0};
  shape.insert(shape.end(), array.shape.begin() + tail, array.shape.end());
  strides.insert(strides.end(), array.strides.begin() + tail, array.strides.end());
  const std::optional<std::int64_t> stride = joint_stride(array, count);
  if (!stride) {
    REQUIRE(ValueError, access == Access::Read, place.text(), " of shape ", shape_text(array.shape), " has strides ",
            shape_text(array.strides),
            ", expected rows that lie evenly in memory: it is an output, pass a contiguous one");
    nb::list extents;
    for (const std::int64_t extent : shape) extents.append(extent);
    return import_array(array.owner.attr("reshape")(nb::tuple(extents)), place);
  }
  strides[0] = *stride;
  array.shape = std::move(shape);
  array.strides = std::move(strides);
  return array;
}

}  // namespace coda::python
