// gated_mlp with or without its inputs kept, after one set of checks.
#pragma once

#include "blocks/arguments.h"
#include "coda/training.h"

namespace coda {

/// Errors: ValueError.
void require_mlp(const Caller& caller, const MlpWeights& weights, std::int64_t width);

/// Options of the program that runs it.
epilogues::RmsGated gated_options(const epilogues::DelayedRms& norm, const MlpWeights& weights, bool save_inputs);

/// Biases as the program names them.
void bind_biases(Operands& operands, const MlpWeights& weights);

}  // namespace coda
