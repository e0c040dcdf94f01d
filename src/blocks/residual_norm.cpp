// Where a stream begins and where it is added to: both leave what the next, delayed, norm needs.
#include "blocks/arguments.h"
#include "blocks/remembered.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

using epilogues::NormWeight;

/// A stream of that shape to be written, without x.
NormedStream empty_stream(const Tensor& x, const RmsNorm& norm) {
  const std::int64_t rows = x.view().shape(0), width = x.view().shape(1);
  NormedStream stream;
  stream.x = x;
  stream.h = norm.kind == NormWeight::None ? x : Tensor::empty({rows, width}, x.view().dtype());
  stream.sum_sq = Tensor::empty({rows, partial_count_for(width)}, DType::F32);
  return stream;
}

void bind_norm(Operands& operands, const NormedStream& stream, const RmsNorm& norm) {
  operands.push_back({"sum_sq", stream.sum_sq});
  if (norm.kind == NormWeight::None) return;
  operands.push_back({"gamma", norm.weight});
  operands.push_back({"h", stream.h});
}

}  // namespace

NormedStream enter_norm(const TensorView& x, const RmsNorm& norm) {
  require_shape("enter_norm", "x", x, {{-1, "T"}, {-1, "d"}});
  const std::int64_t rows = x.shape(0), width = x.shape(1);
  REQUIRE(ValueError, width > 0, "enter_norm: x has shape ", shape_text(x.shape()),
          ", expected at least one column: a norm needs a width");
  require_norm("enter_norm", "norm.weight", norm, width);
  NormedStream stream = empty_stream(Tensor::copy(x, x.dtype()), norm);
  Operands operands{{"x", x}};
  bind_norm(operands, stream, norm);
  const epilogues::RmsEntry options{norm.kind, partial_width_for(width)};
  const Program program =
      remembered(std::tuple(options.weight, options.partial_width), [&] { return epilogues::rms_entry(options); });
  elementwise(rows, width, program, operands);
  return stream;
}

NormedStream residual_norm(const TensorView& y, const TensorView& weight, const TensorView& x, const RmsNorm& next,
                           const std::optional<TensorView>& bias) {
  require_shape("residual_norm", "y", y, {{-1, "T"}, {-1, "k"}});
  const std::int64_t rows = y.shape(0);
  require_shape("residual_norm", "weight", weight, {{-1, "d"}, {y.shape(1), "k, the columns of y"}});
  const std::int64_t width = weight.shape(0);
  REQUIRE(ValueError, width > 0, "residual_norm: weight has shape ", shape_text(weight.shape()),
          ", expected at least one row: a norm needs a width");
  require_shape("residual_norm", "x", x, {{rows, "T"}, {width, "d"}});
  require_shape_if_given("residual_norm", "bias", bias, {{width, "d"}});
  require_norm("residual_norm", "next.weight", next, width);

  NormedStream stream = empty_stream(Tensor::empty({rows, width}, x.dtype()), next);
  Operands operands{{"residual", x}, {"x", stream.x}};
  if (bias) operands.push_back({"bias", *bias});
  bind_norm(operands, stream, next);
  const epilogues::ResidualRms options{next.kind, partial_width_for(width), bias.has_value()};
  const Program program = remembered(std::tuple(options.weight, options.partial_width, options.bias),
                                     [&] { return epilogues::residual_rms(options); });
  gemm(y, weight.transposed(), program, operands);
  return stream;
}

}  // namespace coda
