// qkv_rope into memory of the caller: a layer with a cache writes keys and values where they stay.
#pragma once

#include "blocks/arguments.h"

namespace coda {

struct QkvViews {
  TensorView q, k, v;
};
void qkv_rope_into(const Caller& caller, const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights,
                   const epilogues::Rope& rope, const RopeTensors& tensors, const QkvViews& out,
                   const Execution& where);

}  // namespace coda
