// The backward of the residual stream: what its readers left becomes the gradient by x.
#include <algorithm>

#include "blocks/remembered.h"
#include "blocks/training/gradients.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

using epilogues::NormWeight;

constexpr std::string_view kCall = "stream_backward";
constexpr const char* kResidual = "residual";  // output of the gradient in f32

/// Operand of the sums of reader `index`.
std::string sum_name(std::size_t index) { return index == 0 ? "s_sum_sq" : concat("s_sum_sq", index); }

/// What each reader left, as cotangents of the stream's sum_sq.
std::vector<Cotangent> from_readers(const std::vector<StreamSum>& sums) {
  std::vector<Cotangent> cotangents;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    Program::Data data = sums[i].finish.data();
    for (Operand& operand : data.operands)
      if (operand.name == sum_name(0)) operand.name = sum_name(i);
    cotangents.push_back(Cotangent::computed("sum_sq", Program(std::move(data))));
  }
  return cotangents;
}

/// enter_norm begins with a sum of one term: its backward is that of residual_norm.
Backward stream_program(const epilogues::ResidualRms& forward, std::vector<Cotangent> cotangents, bool is_product,
                        bool has_d_x, const std::vector<std::string>& wrt) {
  const std::string normed = forward.weight == NormWeight::None ? "x" : "h";
  cotangents.push_back(is_product ? Cotangent::acc(normed) : Cotangent::load(normed, "d_h"));
  if (has_d_x) cotangents.push_back(Cotangent::load("x"));
  if (!has_d_x && normed != "x") cotangents.push_back(Cotangent::none("x"));
  return differentiate(epilogues::residual_rms(forward), wrt, cotangents, {.partial_width = kColPartialWidth});
}

/// Stores output `name` once more, in f32.
Program with_residual(const Program& program, std::string_view name) {
  Program::Data data = program.data();
  const int output = program.find_operand(name);
  Node store = *std::ranges::find_if(
      data.nodes, [&](const Node& node) { return node.kind == NodeKind::Store && node.index == output; });
  store.index = static_cast<int>(data.operands.size());
  data.operands.push_back({.name = kResidual, .role = Role::Output, .dtype = DType::F32});
  data.nodes.push_back(std::move(store));
  return Program(std::move(data));
}

Caller check(const StreamGradient& gradient, const SavedStream& stream, const RmsNorm& norm,
             const StreamParameterGradients& into) {
  const Caller caller = require_saved(kCall, stream);
  const std::int64_t rows = stream.x.view().shape(0), width = stream.x.view().shape(1);
  require_norm(caller, "norm.weight", norm, width);
  REQUIRE(ValueError, gradient.dz.size() == gradient.weights.size(), kCall, ": gradient has ", gradient.dz.size(),
          " dz and ", gradient.weights.size(), " weights, expected one weight for each dz");
  REQUIRE(ValueError, gradient.dz.empty() == gradient.d_h.has_value(), kCall, ": gradient has ",
          gradient.d_h ? "dz and d_h" : "neither dz nor d_h", ", expected one of them");
  for (std::size_t i = 0; i < gradient.dz.size(); ++i) {
    require_shape(caller, concat("gradient.dz[", i, "]"), gradient.dz[i], {{rows, "T"}, {-1, "n"}});
    require_shape(caller, concat("gradient.weights[", i, "]"), gradient.weights[i],
                  {{gradient.dz[i].view().shape(1), "n, the columns of dz"}, {width, "d"}});
  }
  const Extent whole[] = {{rows, "T"}, {width, "d"}};
  if (gradient.d_h) require_shape(caller, "gradient.d_h", *gradient.d_h, {whole[0], whole[1]});
  if (gradient.d_x) require_shape(caller, "gradient.d_x", *gradient.d_x, {whole[0], whole[1]});
  REQUIRE(ValueError, !gradient.sums.empty(), kCall, ": gradient has no sums, expected what the readers left");
  for (std::size_t i = 0; i < gradient.sums.size(); ++i)
    require_shape(caller, concat("gradient.sums[", i, "].s"), gradient.sums[i].s, {{rows, "T"}, {-1, "partials"}});
  REQUIRE(ValueError, norm.kind != NormWeight::None || !into.norm_weight, kCall,
          ": into.norm_weight is given, but the norm has no weight: leave it out");
  if (norm.kind != NormWeight::None) require_main(caller, "norm_weight", into.norm_weight, norm.weight);
  if (into.bias)
    require_main(caller, "bias", into.bias, TensorView(stream.x.view().data(), stream.x.view().dtype(), {width}));
  return caller;
}

Factor factor(const std::vector<TensorView>& parts) { return parts.size() == 1 ? Factor(parts[0]) : concat_k(parts); }

}  // namespace

SavedStream saved_stream(const NormedStream& stream, SavedPolicy policy, const Execution& where) {
  require_stream("saved_stream", stream);
  const std::int64_t count = stream.sum_sq.view().shape(1);
  if (policy == SavedPolicy::Fast || count == 1) return {stream.x, stream.sum_sq};
  return {stream.x,
          fewer_partials(few_enough(stream.sum_sq, Reduction::Sum, where), Reduction::Sum, kMaxPartials, where)};
}

StreamBackward stream_backward(const StreamGradient& gradient, const SavedStream& stream, const RmsNorm& norm,
                               const StreamParameterGradients& into, StreamGradientDType dtype,
                               const Execution& where) {
  const Caller caller = check(gradient, stream, norm, into);
  const TensorView& x = stream.x;
  const epilogues::ResidualRms forward{.weight = norm.kind, .bias = into.bias.has_value()};
  std::string finishes;
  for (const StreamSum& sum : gradient.sums) finishes += to_text(sum.finish);
  const bool is_product = !gradient.d_h, has_d_x = gradient.d_x.has_value(), has_gamma = into.norm_weight.has_value();
  const bool stores_both = dtype == StreamGradientDType::F32 && size_of(x.dtype()) < size_of(DType::F32);
  const Backward backward =
      remembered(std::tuple(finishes, norm.kind, is_product, has_d_x, has_gamma, forward.bias, stores_both), [&] {
        Backward made = stream_program(forward, from_readers(gradient.sums), is_product, has_d_x,
                                       wrt_of({"acc0"}, {{"gamma", into.norm_weight}, {"bias", into.bias}}));
        if (stores_both) made.program = with_residual(made.program, made.gradients[0].output);
        return made;
      });

  const Tensor d_x = Tensor::empty(x.shape(), x.dtype(), x.device(), where.stream);
  const Tensor residual = stores_both ? Tensor::empty(x.shape(), DType::F32, x.device(), where.stream) : d_x;
  Operands all{{"x", x}, {"sum_sq", stream.sum_sq}, {backward.gradients[0].output, d_x}, {kResidual, residual}};
  for (std::size_t i = 0; i < gradient.sums.size(); ++i) all.push_back({sum_name(i), gradient.sums[i].s});
  if (norm.kind != NormWeight::None) all.push_back({"gamma", norm.weight});
  if (gradient.d_h) all.push_back({"d_h", *gradient.d_h});
  if (gradient.d_x) all.push_back({"d_x", *gradient.d_x});
  ColGradients sums(x.shape(0), x.device(), where);
  sums.bind(all, "gamma", x.shape(1), into.norm_weight);
  sums.bind(all, "bias", x.shape(1), into.bias);
  const Operands operands = used(backward.program, all);
  if (is_product) {
    const std::vector<TensorView> dz(gradient.dz.begin(), gradient.dz.end());
    gemm(factor(dz), factor(gradient.weights), backward.program, operands, {}, where);
  } else {
    elementwise(x.shape(0), x.shape(1), backward.program, operands, {}, where);
  }
  sums.add();
  return {d_x, residual};
}

}  // namespace coda
