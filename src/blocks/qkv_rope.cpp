// Rotated q and k, and v, in one launch: three segments of one product share A.
#include "blocks/qkv_rope.h"

#include "blocks/arguments.h"
#include "blocks/remembered.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

using Angles = epilogues::Rope::Angles;

void bind_angle(const Caller& caller, std::string_view name, const std::optional<TensorView>& tensor,
                std::string_view angles, Operands& operands) {
  REQUIRE(ValueError, tensor, caller.name, ": ", name, " is missing, expected a tensor: rope.angles is ", angles);
  require_memory(caller.name, name, *tensor, caller.home);
  operands.push_back({std::string(name), *tensor});
}

void bind_angles(const Caller& caller, const epilogues::Rope& rope, const RopeTensors& tensors, Operands& operands) {
  switch (rope.angles) {
    case Angles::Base: bind_angle(caller, "positions", tensors.positions, "Base", operands); return;
    case Angles::Frequency:
      bind_angle(caller, "positions", tensors.positions, "Frequency", operands);
      bind_angle(caller, "frequencies", tensors.frequencies, "Frequency", operands);
      return;
    case Angles::Table:
      bind_angle(caller, "cos", tensors.cos, "Table", operands);
      bind_angle(caller, "sin", tensors.sin, "Table", operands);
      return;
  }
  INVARIANT(false, "angles ", static_cast<int>(rope.angles));
}

}  // namespace

Program rotated_program(const epilogues::DelayedRms& norm, const epilogues::Rope& rope, const RotatedPart& part,
                        bool save_z) {
  const bool bias = part.bias.has_value();
  if (!part.head_norm)
    return remembered(std::tuple(key_of(norm), key_of(rope), bias),
                      [&] { return epilogues::rms_rope({norm, rope, bias}); });
  epilogues::QkNormRope options;
  options.norm = norm;
  options.rope = rope;
  options.weight = part.head_norm->kind;
  options.eps = part.head_norm->eps;
  options.bias = bias;
  options.save_inputs = save_z;
  return remembered(std::tuple(key_of(norm), key_of(rope), bias, save_z, options.weight, key_of(options.eps)),
                    [&] { return epilogues::qk_norm_rope(options); });
}

Program value_program(const epilogues::DelayedRms& norm, bool bias) {
  return remembered(std::tuple(key_of(norm), bias), [&] { return epilogues::rms({norm, bias}); });
}

void bind_rotated(const Caller& caller, const epilogues::Rope& rope, const RopeTensors& tensors,
                  const RotatedPart& part, Operands& operands) {
  bind_angles(caller, rope, tensors, operands);
  if (part.bias) operands.push_back({"bias", *part.bias});
  if (part.head_norm && part.head_norm->kind != epilogues::NormWeight::None)
    operands.push_back({"gamma", part.head_norm->weight});
}

void require_qkv(const Caller& caller, const QkvWeights& weights, const epilogues::Rope& rope, std::int64_t width) {
  const auto check = [&](const char* name, const TensorView& weight, const std::optional<TensorView>& bias) {
    require_shape(caller, name, weight, {{-1, "heads·head"}, {width, "d, the width of the stream"}});
    require_shape_if_given(caller, concat(name, "_bias"), bias, {{weight.shape(0), "heads·head"}});
  };
  check("q", weights.q, weights.q_bias);
  check("k", weights.k, weights.k_bias);
  check("v", weights.v, weights.v_bias);
  if (weights.q_norm) require_norm(caller, "q_norm.weight", *weights.q_norm, rope.head);
  if (weights.k_norm) require_norm(caller, "k_norm.weight", *weights.k_norm, rope.head);
}

void qkv_rope_into(const Caller& caller, const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights,
                   const epilogues::Rope& rope, const RopeTensors& tensors, const QkvViews& out,
                   const Execution& where) {
  const epilogues::DelayedRms row_norm = delayed(stream, norm);
  const auto rotated = [&](const RotatedPart& part, const TensorView& result, const std::optional<TensorView>& z) {
    Operands operands{{"sum_sq", stream.sum_sq}, {"out", result}};
    if (z) operands.push_back({"z", *z});
    bind_rotated(caller, rope, tensors, part, operands);
    return Segment{rotated_program(row_norm, rope, part, z.has_value()), std::move(operands)};
  };
  Operands value_operands{{"sum_sq", stream.sum_sq}, {"out", out.v}};
  if (weights.v_bias) value_operands.push_back({"bias", *weights.v_bias});
  const Segment segments[] = {rotated({weights.q_bias, weights.q_norm}, out.q, out.qz),
                              rotated({weights.k_bias, weights.k_norm}, out.k, out.kz),
                              {value_program(row_norm, weights.v_bias.has_value()), std::move(value_operands)}};
  gemm(stream.h, concat({weights.q.transposed(), weights.k.transposed(), weights.v.transposed()}), segments, {}, where);
}

SavedQkv qkv_rope_kept(const Caller& caller, const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights,
                       const epilogues::Rope& rope, const RopeTensors& tensors, const Execution& where) {
  const TensorView& h = stream.h;
  const auto made = [&](const TensorView& weight) {
    return Tensor::empty({h.shape(0), weight.shape(0)}, h.dtype(), h.device(), where.stream);
  };
  SavedQkv saved{made(weights.q), made(weights.k), made(weights.v), {}, {}};
  QkvViews out{saved.q, saved.k, saved.v};
  if (RotatedPart{weights.q_bias, weights.q_norm}.needs_z()) out.qz = saved.qz = made(weights.q);
  if (RotatedPart{weights.k_bias, weights.k_norm}.needs_z()) out.kz = saved.kz = made(weights.k);
  qkv_rope_into(caller, stream, norm, weights, rope, tensors, out, where);
  return saved;
}

SavedQkv qkv_rope_saved(const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights,
                        const epilogues::Rope& rope, const RopeTensors& tensors, const Execution& where) {
  const Caller caller = require_stream("qkv_rope_saved", stream);
  require_qkv(caller, weights, rope, stream.h.view().shape(1));
  return qkv_rope_kept(caller, stream, norm, weights, rope, tensors, where);
}

Qkv qkv_rope(const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights, const epilogues::Rope& rope,
             const RopeTensors& tensors, const Execution& where) {
  const Caller caller = require_stream("qkv_rope", stream);
  const TensorView& h = stream.h;
  require_qkv(caller, weights, rope, h.shape(1));
  const auto result = [&](const TensorView& weight) {
    return Tensor::empty({h.shape(0), weight.shape(0)}, h.dtype(), h.device(), where.stream);
  };
  Qkv qkv{result(weights.q), result(weights.k), result(weights.v)};
  qkv_rope_into(caller, stream, norm, weights, rope, tensors, {qkv.q, qkv.k, qkv.v}, where);
  return qkv;
}

}  // namespace coda
