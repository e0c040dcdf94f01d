// gate(norm(x)·W_gateᵀ, norm(x)·W_upᵀ) in one launch over the pair of weights.
#include "blocks/arguments.h"
#include "blocks/remembered.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {

Tensor gated_mlp(const NormedStream& stream, const RmsNorm& norm, const TensorView& gate_weight,
                 const TensorView& up_weight, const std::string& gate, const std::optional<TensorView>& gate_bias,
                 const std::optional<TensorView>& up_bias, const Execution& where) {
  const Caller caller = require_stream("gated_mlp", stream);
  const TensorView& h = stream.h;
  require_shape(caller, "gate_weight", gate_weight, {{-1, "f"}, {h.shape(1), "d, the width of the stream"}});
  const std::int64_t width = gate_weight.shape(0);
  require_shape(caller, "up_weight", up_weight,
                {{width, "f, the rows of gate_weight"}, {h.shape(1), "d, the width of the stream"}});
  require_shape_if_given(caller, "gate_bias", gate_bias, {{width, "f, the rows of gate_weight"}});
  require_shape_if_given(caller, "up_bias", up_bias, {{width, "f, the rows of gate_weight"}});
  REQUIRE(ValueError, gate_bias.has_value() == up_bias.has_value(), "gated_mlp: ", gate_bias ? "up_bias" : "gate_bias",
          " is missing, expected both biases or neither: give zeros for the other");

  const Tensor out = Tensor::empty({h.shape(0), width}, h.dtype(), h.device(), where.stream);
  Operands operands{{"sum_sq", stream.sum_sq}, {"out", out}};
  if (gate_bias) {
    operands.push_back({"gate_bias", *gate_bias});
    operands.push_back({"up_bias", *up_bias});
  }
  epilogues::RmsGated options{.norm = delayed(stream, norm), .gated = {}};
  options.gated.gate = gate;
  options.gated.bias = gate_bias.has_value();
  const Program program = remembered(std::tuple(key_of(options.norm), gate, options.gated.bias),
                                     [&] { return epilogues::rms_gated(options); });
  gemm(h, pair(gate_weight.transposed(), up_weight.transposed()), program, operands, {}, where);
  return out;
}

}  // namespace coda
