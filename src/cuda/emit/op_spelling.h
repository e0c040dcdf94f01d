// How each op of the op table is written in CUDA.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "coda/ops.h"

namespace coda::cuda {

/// The expression of an op on arguments that are names or literals.
std::string spell(Op op, std::span<const std::string> arguments);

/// True when the op's code needs few registers.
bool is_light(Op op);

/// The function the expression calls; empty for an operator.
std::string_view function_of(Op op);

}  // namespace coda::cuda
