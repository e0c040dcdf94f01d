// gated_mlp, backward: the epilogue of the product that makes the gradient by its result.
#include "blocks/gated_mlp.h"

#include "blocks/remembered.h"
#include "blocks/training/gradients.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

constexpr std::string_view kCall = "gated_mlp_backward";

Backward backward_of(const epilogues::RmsGated& forward, const std::vector<std::string>& wrt, bool remake_y,
                     std::int64_t width) {
  DifferentiateOptions options{.partial_width = width, .partial_rows = kColPartialWidth};
  if (remake_y) options.remade = {"out"};
  return differentiate(epilogues::rms_gated(forward), wrt,
                       {Cotangent::acc("out"), Cotangent::none("gate"), Cotangent::none("up")}, options);
}

Caller check(const TensorView& d_out, const TensorView& down, const GatedMlp& saved, const SavedStream& stream,
             const RmsNorm& norm, const MlpWeights& weights, const MlpGradients& into) {
  const Caller caller = require_saved(kCall, stream);
  const TensorView& x = stream.x;
  require_norm(caller, "norm.weight", norm, x.shape(1));
  require_mlp(caller, weights, x.shape(1));
  const Extent rows{x.shape(0), "T"}, cols{weights.gate.shape(0), "f, the rows of gate_weight"};
  require_shape(caller, "down", down, {{-1, "n"}, cols});
  require_shape(caller, "d_out", d_out, {rows, {down.shape(0), "n, the rows of down"}});
  require_shape(caller, "saved.gate", saved.gate, {rows, cols});
  require_shape(caller, "saved.up", saved.up, {rows, cols});
  if (saved.y.view().rank() > 0) require_shape(caller, "saved.y", saved.y, {rows, cols});
  require_main(caller, "gate", into.gate, weights.gate);
  require_main(caller, "up", into.up, weights.up);
  REQUIRE(ValueError, weights.gate_bias || (!into.gate_bias && !into.up_bias), kCall, ": into.",
          into.gate_bias ? "gate_bias" : "up_bias", " is given, but there are no biases");
  if (weights.gate_bias) {
    require_main(caller, "gate_bias", into.gate_bias, *weights.gate_bias);
    require_main(caller, "up_bias", into.up_bias, *weights.up_bias);
  }
  return caller;
}

}  // namespace

GatedMlpBackward gated_mlp_backward(const TensorView& d_out, const TensorView& down, const GatedMlp& saved,
                                    const SavedStream& stream, const RmsNorm& norm, const MlpWeights& weights,
                                    const MlpGradients& into, const Execution& where) {
  check(d_out, down, saved, stream, norm, weights, into);
  const TensorView& x = stream.x;
  const std::int64_t rows = x.shape(0), cols = weights.gate.shape(0);
  const bool remake_y = saved.y.view().rank() == 0;
  RowSums sums(rows, {cols}, x.device(), where);
  const epilogues::RmsGated forward = gated_options({x.shape(1), norm.eps}, weights, true);
  const Backward backward = remembered(
      std::tuple(key_of(forward), remake_y, into.gate_bias.has_value(), into.up_bias.has_value(), sums.width()), [&] {
        return backward_of(
            forward, wrt_of({"acc0", "acc1", "sum_sq"}, {{"gate_bias", into.gate_bias}, {"up_bias", into.up_bias}}),
            remake_y, sums.width());
      });
  const auto made = [&] { return Tensor::empty({rows, cols}, x.dtype(), x.device(), where.stream); };
  const Tensor d_gate = made(), d_up = made(), y = remake_y ? made() : saved.y;
  Operands all{{"gate", saved.gate}, {"up", saved.up}, {"sum_sq", stream.sum_sq},
               {"d_acc0", d_gate},   {"d_acc1", d_up}, {"s_sum_sq", sums.part(0)}};
  bind_biases(all, weights);
  if (remake_y) all.push_back({"out", y});
  ColGradients col_sums(rows, x.device(), where);
  col_sums.bind(all, "gate_bias", cols, into.gate_bias);
  col_sums.bind(all, "up_bias", cols, into.up_bias);
  gemm(d_out, down, backward.program, used(backward.program, all), {}, where);
  col_sums.add();
  add_normed_weight_gradients({{d_gate, into.gate}, {d_up, into.up}}, x, norm, where);
  return {{{d_gate, d_up}, {weights.gate, weights.up}, {}, {{sums.finished(where), finish_of(backward)}}, {}}, y};
}

}  // namespace coda
