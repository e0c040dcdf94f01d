// The order nodes and operands of a built program stand in.
#pragma once

#include "coda/program.h"

namespace coda {

/// The same program with each store, in order, preceded by the nodes it needs that do not stand yet, a node's arguments
/// first to last; operands in the order the nodes name them. C++ leaves open which argument of a call is evaluated
/// first: this order does not depend on it, so every compiler, and Python, gives one text.
Program::Data in_order_of_stores(const Program::Data& data);

}  // namespace coda
