// Checks of what differentiate is asked for.
#pragma once

#include <string>
#include <vector>

#include "coda/differentiate.h"

namespace coda {

/// What errors of a forward program begin with.
std::string call_of(const Program& forward);

/// Refuses a request that does not fit the program. Errors: ValueError, TypeError, NotImplementedError.
void check_request(const Program& forward, const std::vector<std::string>& wrt,
                   const std::vector<Cotangent>& cotangents, const DifferentiateOptions& options);

/// By node, whether it is the accumulator or a load of the operand called so.
std::vector<bool> nodes_of(const Program& forward, const std::string& name);

}  // namespace coda
