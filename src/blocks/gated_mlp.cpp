// gate(norm(x)·W_gateᵀ, norm(x)·W_upᵀ) in one launch over the pair of weights.
#include "blocks/gated_mlp.h"

#include "blocks/remembered.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

GatedMlp run(const Caller& caller, const NormedStream& stream, const RmsNorm& norm, const MlpWeights& weights,
             bool save_inputs, const Execution& where) {
  const TensorView& h = stream.h;
  require_mlp(caller, weights, h.shape(1));
  const auto made = [&] {
    return Tensor::empty({h.shape(0), weights.gate.shape(0)}, h.dtype(), h.device(), where.stream);
  };
  GatedMlp result{made(), {}, {}};
  Operands operands{{"sum_sq", stream.sum_sq}, {"out", result.y}};
  bind_biases(operands, weights);
  if (save_inputs) {
    operands.push_back({"gate", result.gate = made()});
    operands.push_back({"up", result.up = made()});
  }
  const epilogues::RmsGated options = gated_options(delayed(stream, norm), weights, save_inputs);
  const Program program = remembered(key_of(options), [&] { return epilogues::rms_gated(options); });
  gemm(h, pair(weights.gate.transposed(), weights.up.transposed()), program, operands, {}, where);
  return result;
}

}  // namespace

void require_mlp(const Caller& caller, const MlpWeights& weights, std::int64_t width) {
  const Extent columns{width, "d, the width of the stream"};
  require_shape(caller, "gate_weight", weights.gate, {{-1, "f"}, columns});
  const Extent rows{weights.gate.shape(0), "f, the rows of gate_weight"};
  require_shape(caller, "up_weight", weights.up, {rows, columns});
  require_shape_if_given(caller, "gate_bias", weights.gate_bias, {rows});
  require_shape_if_given(caller, "up_bias", weights.up_bias, {rows});
  REQUIRE(ValueError, weights.gate_bias.has_value() == weights.up_bias.has_value(), caller.name, ": ",
          weights.gate_bias ? "up_bias" : "gate_bias",
          " is missing, expected both biases or neither: give zeros for the other");
}

epilogues::RmsGated gated_options(const epilogues::DelayedRms& norm, const MlpWeights& weights, bool save_inputs) {
  epilogues::RmsGated options{.norm = norm, .gated = {}};
  options.gated.gate = weights.activation;
  options.gated.bias = weights.gate_bias.has_value();
  options.gated.save_inputs = save_inputs;
  return options;
}

void bind_biases(Operands& operands, const MlpWeights& weights) {
  if (!weights.gate_bias) return;
  operands.push_back({"gate_bias", *weights.gate_bias});
  operands.push_back({"up_bias", *weights.up_bias});
}

Tensor gated_mlp(const NormedStream& stream, const RmsNorm& norm, const TensorView& gate_weight,
                 const TensorView& up_weight, const std::string& gate, const std::optional<TensorView>& gate_bias,
                 const std::optional<TensorView>& up_bias, const Execution& where) {
  const Caller caller = require_stream("gated_mlp", stream);
  return run(caller, stream, norm, {gate_weight, up_weight, gate_bias, up_bias, gate}, false, where).y;
}

GatedMlp gated_mlp_saved(const NormedStream& stream, const RmsNorm& norm, const MlpWeights& weights,
                         const Execution& where) {
  return run(require_stream("gated_mlp_saved", stream), stream, norm, weights, true, where);
}

}  // namespace coda
