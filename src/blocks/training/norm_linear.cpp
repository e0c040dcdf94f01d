// norm_linear, backward: a pass over its result, no product.
#include "blocks/remembered.h"
#include "blocks/training/gradients.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

constexpr std::string_view kCall = "norm_linear_backward";

Backward backward_of(const epilogues::Rms& forward, const std::vector<std::string>& wrt, std::int64_t width) {
  return differentiate(epilogues::rms(forward), wrt, {Cotangent::load("out")},
                       {.partial_width = width, .partial_rows = kColPartialWidth});
}

}  // namespace

StreamGradient norm_linear_backward(const TensorView& d_out, const TensorView& out, const SavedStream& stream,
                                    const RmsNorm& norm, const TensorView& weight,
                                    const std::optional<TensorView>& bias, const NormLinearGradients& into,
                                    const Execution& where) {
  const Caller caller = require_saved(kCall, stream);
  const TensorView& x = stream.x;
  const std::int64_t rows = x.shape(0);
  require_norm(caller, "norm.weight", norm, x.shape(1));
  require_shape(caller, "weight", weight, {{-1, "n"}, {x.shape(1), "d, the width of the stream"}});
  const std::int64_t cols = weight.shape(0);
  require_shape_if_given(caller, "bias", bias, {{cols, "n, the rows of weight"}});
  require_shape(caller, "d_out", d_out, {{rows, "T"}, {cols, "n, the rows of weight"}});
  require_shape(caller, "out", out, {{rows, "T"}, {cols, "n, the rows of weight"}});
  require_main(caller, "weight", into.weight, weight);
  REQUIRE(ValueError, bias || !into.bias, kCall, ": into.bias is given, but there is no bias");
  if (bias) require_main(caller, "bias", into.bias, *bias);

  RowSums sums(rows, {cols}, x.device(), where);
  const epilogues::Rms forward{{x.shape(1), norm.eps}, bias.has_value()};
  const Backward backward =
      remembered(std::tuple(key_of(forward.norm), forward.bias, into.bias.has_value(), sums.width()),
                 [&] { return backward_of(forward, wrt_of({"acc0", "sum_sq"}, {{"bias", into.bias}}), sums.width()); });
  const Tensor dz = Tensor::empty({rows, cols}, x.dtype(), x.device(), where.stream);
  Operands all{{"d_out", d_out}, {"out", out}, {"sum_sq", stream.sum_sq}, {"d_acc0", dz}, {"s_sum_sq", sums.part(0)}};
  if (bias) all.push_back({"bias", *bias});
  ColGradients col_sums(rows, x.device(), where);
  col_sums.bind(all, "bias", cols, into.bias);
  elementwise(rows, cols, backward.program, used(backward.program, all), {}, where);
  col_sums.add();
  add_normed_weight_gradients({{dz, into.weight}}, x, norm, where);
  return {{dz}, {weight}, {}, {{sums.finished(where), finish_of(backward)}}, {}};
}

}  // namespace coda
