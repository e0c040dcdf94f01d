// norm(x)·Wᵀ: the row factor of the norm is applied behind the product.
#include "blocks/arguments.h"
#include "blocks/remembered.h"
#include "coda/gemm.h"

namespace coda {

Tensor norm_linear(const NormedStream& stream, const RmsNorm& norm, const TensorView& weight,
                   const std::optional<TensorView>& bias, std::optional<DType> dtype, const Execution& where) {
  const Caller caller = require_stream("norm_linear", stream);
  const TensorView& h = stream.h;
  require_shape(caller, "weight", weight, {{-1, "n"}, {h.shape(1), "d, the width of the stream"}});
  require_shape_if_given(caller, "bias", bias, {{weight.shape(0), "n, the rows of weight"}});
  const Tensor out = Tensor::empty({h.shape(0), weight.shape(0)}, dtype.value_or(h.dtype()), h.device(), where.stream);
  Operands operands{{"sum_sq", stream.sum_sq}, {"out", out}};
  if (bias) operands.push_back({"bias", *bias});
  const epilogues::Rms options{delayed(stream, norm), bias.has_value()};
  const Program program =
      remembered(std::tuple(key_of(options.norm), options.bias), [&] { return epilogues::rms(options); });
  gemm(h, weight.transposed(), program, operands, {}, where);
  return out;
}

}  // namespace coda
