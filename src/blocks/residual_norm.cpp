// Where a stream begins and where it is added to: both leave what the next, delayed, norm needs.
#include "blocks/arguments.h"
#include "blocks/copies.h"
#include "blocks/remembered.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

using epilogues::NormWeight;

/// A stream with that x, the rest to be written.
NormedStream empty_stream(const Tensor& x, const RmsNorm& norm, const Execution& where) {
  const TensorView& view = x;
  const std::int64_t rows = view.shape(0), width = view.shape(1);
  NormedStream stream;
  stream.x = x;
  stream.h =
      norm.kind == NormWeight::None ? x : Tensor::empty({rows, width}, view.dtype(), view.device(), where.stream);
  stream.sum_sq = Tensor::empty({rows, partial_count_for(width)}, DType::F32, view.device(), where.stream);
  return stream;
}

void bind_norm(Operands& operands, const NormedStream& stream, const RmsNorm& norm) {
  operands.push_back({"sum_sq", stream.sum_sq});
  if (norm.kind == NormWeight::None) return;
  operands.push_back({"gamma", norm.weight});
  operands.push_back({"h", stream.h});
}

}  // namespace

NormedStream enter_norm(const TensorView& x, const RmsNorm& norm, const Execution& where) {
  const Caller caller{"enter_norm", {x.device(), "x"}};
  require_shape(caller, "x", x, {{-1, "T"}, {-1, "d"}});
  const std::int64_t rows = x.shape(0), width = x.shape(1);
  REQUIRE(ValueError, width > 0, "enter_norm: x has shape ", shape_text(x.shape()),
          ", expected at least one column: a norm needs a width");
  require_norm(caller, "norm.weight", norm, width);
  NormedStream stream = empty_stream(copied(x, x.dtype(), where), norm, where);
  Operands operands{{"x", x}};
  bind_norm(operands, stream, norm);
  const epilogues::RmsEntry options{norm.kind, partial_width_for(width)};
  const Program program =
      remembered(std::tuple(options.weight, options.partial_width), [&] { return epilogues::rms_entry(options); });
  elementwise(rows, width, program, operands, {}, where);
  return stream;
}

NormedStream residual_norm(const TensorView& y, const TensorView& weight, const TensorView& x, const RmsNorm& next,
                           const std::optional<TensorView>& bias, const Execution& where) {
  const Caller caller{"residual_norm", {y.device(), "y"}};
  require_shape(caller, "y", y, {{-1, "T"}, {-1, "k"}});
  const std::int64_t rows = y.shape(0);
  require_shape(caller, "weight", weight, {{-1, "d"}, {y.shape(1), "k, the columns of y"}});
  const std::int64_t width = weight.shape(0);
  REQUIRE(ValueError, width > 0, "residual_norm: weight has shape ", shape_text(weight.shape()),
          ", expected at least one row: a norm needs a width");
  require_shape(caller, "x", x, {{rows, "T"}, {width, "d"}});
  require_shape_if_given(caller, "bias", bias, {{width, "d"}});
  require_norm(caller, "next.weight", next, width);

  NormedStream stream = empty_stream(Tensor::empty({rows, width}, x.dtype(), x.device(), where.stream), next, where);
  Operands operands{{"residual", x}, {"x", stream.x}};
  if (bias) operands.push_back({"bias", *bias});
  bind_norm(operands, stream, next);
  const epilogues::ResidualRms options{next.kind, partial_width_for(width), bias.has_value()};
  const Program program = remembered(std::tuple(options.weight, options.partial_width, options.bias),
                                     [&] { return epilogues::residual_rms(options); });
  gemm(y, weight.transposed(), program, operands, {}, where);
  return stream;
}

}  // namespace coda
