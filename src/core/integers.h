// Whole numbers of units.
#pragma once

#include <type_traits>

namespace coda {

/// Units that hold `value`; neither is negative.
template <class Integer>
constexpr Integer ceil_div(Integer value, std::type_identity_t<Integer> unit) {
  return (value + unit - 1) / unit;
}

/// The smallest multiple of `unit` that is no smaller.
template <class Integer>
constexpr Integer round_up(Integer value, std::type_identity_t<Integer> unit) {
  return ceil_div(value, unit) * unit;
}

}  // namespace coda
