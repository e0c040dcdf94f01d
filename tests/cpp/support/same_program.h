// Whether two programs are equal in every attribute, names included.
#pragma once

#include <cmath>

#include "coda/program.h"

namespace coda::testing_support {

inline bool same_node(const Node& a, const Node& b) {
  const bool same_value =
      a.value == b.value ? std::signbit(a.value) == std::signbit(b.value) : std::isnan(a.value) && std::isnan(b.value);
  return same_value && a.kind == b.kind && a.type == b.type && a.args == b.args && a.op == b.op && a.axis == b.axis &&
         a.reduction == b.reduction && a.dtype == b.dtype && a.index == b.index && a.period == b.period &&
         a.pairing == b.pairing && a.ignored == b.ignored && a.name == b.name;
}

inline bool same_program(const Program& a, const Program& b) {
  if (a.name() != b.name() || a.data().operands != b.data().operands || a.nodes().size() != b.nodes().size())
    return false;
  for (std::size_t i = 0; i < a.nodes().size(); ++i)
    if (!same_node(a.nodes()[i], b.nodes()[i])) return false;
  return true;
}

}  // namespace coda::testing_support
