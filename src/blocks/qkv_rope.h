// qkv_rope into memory of the caller: a layer with a cache writes keys and values where they stay. And what its
// backward shares with it.
#pragma once

#include "blocks/arguments.h"
#include "coda/training.h"

namespace coda {

struct QkvViews {
  TensorView q, k, v;
  std::optional<TensorView> qz{}, kz{};  ///< as in SavedQkv; given: they are written too
};
void qkv_rope_into(const Caller& caller, const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights,
                   const epilogues::Rope& rope, const RopeTensors& tensors, const QkvViews& out,
                   const Execution& where);

/// qkv_rope_saved after its checks.
SavedQkv qkv_rope_kept(const Caller& caller, const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights,
                       const epilogues::Rope& rope, const RopeTensors& tensors, const Execution& where);

/// Errors: ValueError.
void require_qkv(const Caller& caller, const QkvWeights& weights, const epilogues::Rope& rope, std::int64_t width);

/// The projection to q or to k.
struct RotatedPart {
  const std::optional<TensorView>& bias;
  const std::optional<RmsNorm>& head_norm;

  /// Its backward needs z, what the heads' norm is of: γ may be 0, so the result does not tell.
  bool needs_z() const { return head_norm.has_value(); }
};

/// Its program, which stores z too when `save_z` and there is a norm of the heads.
Program rotated_program(const epilogues::DelayedRms& norm, const epilogues::Rope& rope, const RotatedPart& part,
                        bool save_z);

/// The program of v.
Program value_program(const epilogues::DelayedRms& norm, bool bias);

/// Operands of q or k but for results. Errors: ValueError for angles that are missing.
void bind_rotated(const Caller& caller, const epilogues::Rope& rope, const RopeTensors& tensors,
                  const RotatedPart& part, Operands& operands);

}  // namespace coda
