// Checks shared by configurations from a file and from a caller.
#pragma once

#include "coda/model.h"

namespace coda {

/// Errors: ValueError naming the field by its name in config.json.
void require_valid(const LlamaConfig& config);

/// Name in gates() of the gate that `activation` of a LlamaConfig makes.
std::string gate_of(const LlamaConfig& config);

}  // namespace coda
