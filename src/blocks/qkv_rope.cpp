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

struct RotatedPart {
  const std::optional<TensorView>& bias;
  const std::optional<RmsNorm>& head_norm;
};

/// The program of q or k.
Program rotated_program(const epilogues::DelayedRms& norm, const epilogues::Rope& rope, const RotatedPart& part) {
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
  return remembered(std::tuple(key_of(norm), key_of(rope), bias, options.weight, key_of(options.eps)),
                    [&] { return epilogues::qk_norm_rope(options); });
}

Caller check_arguments(std::string_view call, const NormedStream& stream, const QkvWeights& weights,
                       const epilogues::Rope& rope) {
  const Caller caller = require_stream(call, stream);
  const std::int64_t width = stream.h.view().shape(1);
  const auto check = [&](const char* name, const TensorView& weight, const std::optional<TensorView>& bias) {
    require_shape(caller, name, weight, {{-1, "heads·head"}, {width, "d, the width of the stream"}});
    require_shape_if_given(caller, concat(name, "_bias"), bias, {{weight.shape(0), "heads·head"}});
  };
  check("q", weights.q, weights.q_bias);
  check("k", weights.k, weights.k_bias);
  check("v", weights.v, weights.v_bias);
  if (weights.q_norm) require_norm(caller, "q_norm.weight", *weights.q_norm, rope.head);
  if (weights.k_norm) require_norm(caller, "k_norm.weight", *weights.k_norm, rope.head);
  return caller;
}

}  // namespace

void qkv_rope_into(const Caller& caller, const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights,
                   const epilogues::Rope& rope, const RopeTensors& tensors, const QkvViews& out,
                   const Execution& where) {
  const epilogues::DelayedRms row_norm = delayed(stream, norm);
  const auto rotated = [&](const RotatedPart& part, const TensorView& result) {
    Operands operands{{"sum_sq", stream.sum_sq}, {"out", result}};
    bind_angles(caller, rope, tensors, operands);
    if (part.bias) operands.push_back({"bias", *part.bias});
    if (part.head_norm && part.head_norm->kind != epilogues::NormWeight::None)
      operands.push_back({"gamma", part.head_norm->weight});
    return Segment{rotated_program(row_norm, rope, part), std::move(operands)};
  };
  Operands value_operands{{"sum_sq", stream.sum_sq}, {"out", out.v}};
  if (weights.v_bias) value_operands.push_back({"bias", *weights.v_bias});
  const bool value_bias = weights.v_bias.has_value();
  const Program value_program =
      remembered(std::tuple(key_of(row_norm), value_bias), [&] { return epilogues::rms({row_norm, value_bias}); });
  const Segment segments[] = {rotated({weights.q_bias, weights.q_norm}, out.q),
                              rotated({weights.k_bias, weights.k_norm}, out.k),
                              {value_program, std::move(value_operands)}};
  gemm(stream.h, concat({weights.q.transposed(), weights.k.transposed(), weights.v.transposed()}), segments, {}, where);
}

Qkv qkv_rope(const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights, const epilogues::Rope& rope,
             const RopeTensors& tensors, const Execution& where) {
  const Caller caller = check_arguments("qkv_rope", stream, weights, rope);
  const TensorView& h = stream.h;
  const auto result = [&](const TensorView& weight) {
    return Tensor::empty({h.shape(0), weight.shape(0)}, h.dtype(), h.device(), where.stream);
  };
  Qkv qkv{result(weights.q), result(weights.k), result(weights.v)};
  qkv_rope_into(caller, stream, norm, weights, rope, tensors, {qkv.q, qkv.k, qkv.v}, where);
  return qkv;
}

}  // namespace coda
