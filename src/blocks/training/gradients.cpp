#include "blocks/training/gradients.h"

#include <algorithm>

#include "blocks/remembered.h"
#include "coda/build.h"
#include "coda/gemm.h"
#include "core/check.h"
#include "library/pieces.h"

namespace coda {
namespace {

using epilogues::NormWeight;

/// into += acc, or acc⊙γ; unless `accumulate`, into = that
Program weight_gradient_program(NormWeight weight, bool accumulate) {
  Builder b("weight_gradient");
  b.store("into", epilogues::weighted(b, b.acc(), weight), {.accumulate = accumulate});
  return b.build();
}

Segment weight_gradient(const MainGradient& into, const RmsNorm& norm) {
  const bool accumulate = !into.is_fresh();
  const auto make = [&] { return weight_gradient_program(norm.kind, accumulate); };
  Segment segment{remembered(std::tuple(norm.kind, accumulate), make), {}};
  segment.operands.push_back({"into", *into});
  if (norm.kind != NormWeight::None) segment.operands.push_back({"gamma", norm.weight});
  return segment;
}

}  // namespace

void require_gradient(const Caller& caller, std::string_view what, const TensorView& gradient,
                      const TensorView& parameter) {
  REQUIRE(ValueError, std::ranges::equal(gradient.shape(), parameter.shape()), caller.name, ": ", what, " has shape ",
          shape_text(gradient.shape()), ", expected ", shape_text(parameter.shape()),
          ", that of the parameter: its gradient is added to it");
  REQUIRE(TypeError, gradient.dtype() == DType::F32 || gradient.dtype() == parameter.dtype(), caller.name, ": ", what,
          " has dtype ", name_of(gradient.dtype()), ", expected f32",
          parameter.dtype() == DType::F32 ? "" : concat(" or ", name_of(parameter.dtype()), ", the parameter's"));
  require_memory(caller.name, what, gradient, caller.home);
}

void require_main(const Caller& caller, std::string_view name, const MainGradient& into, const TensorView& parameter) {
  if (into) require_gradient(caller, concat("into.", name), *into, parameter);
}

Caller require_saved(std::string_view call, const SavedStream& stream) {
  const TensorView& x = stream.x;
  const Caller caller{call, {x.device(), "stream.x"}};
  require_shape(caller, "stream.x", x, {{-1, "T"}, {-1, "d"}});
  require_shape(caller, "stream.sum_sq", stream.sum_sq, {{x.shape(0), "T"}, {-1, "partials"}});
  return caller;
}

Operands used(const Program& program, const Operands& all) {
  Operands result;
  for (const NamedTensor& operand : all)
    if (program.find_operand(operand.name) >= 0) result.push_back(operand);
  return result;
}

std::vector<std::string> wrt_of(std::vector<std::string> always, std::initializer_list<Wish> wishes) {
  for (const Wish& wish : wishes)
    if (wish.into) always.emplace_back(wish.name);
  return always;
}

void ColGradients::bind(Operands& operands, const std::string& name, std::int64_t cols, const MainGradient& into) {
  if (!into) return;
  const std::int64_t count = col_partial_count(rows_), own = into->shape(0);
  made_.push_back(Tensor::empty({count, cols}, DType::F32, device_, where_.stream));
  operands.push_back({"d_" + name, made_.back()});
  sums_.push_back({made_.back().view().reshaped({count * (cols / own), own}), into});
}

void ColGradients::add() const { add_col_sums(sums_, where_); }

const Program& finish_of(const Backward& reader) {
  for (const Gradient& gradient : reader.gradients)
    if (gradient.of == "sum_sq") return *gradient.finish;
  INVARIANT(false, "no gradient by sum_sq in\n", to_text(reader.program));
}

void add_normed_weight_gradients(std::initializer_list<NormedWeight> weights, const TensorView& x, const RmsNorm& norm,
                                 const Execution& where) {
  std::vector<TensorView> left;
  std::vector<Segment> segments;
  for (const NormedWeight& weight : weights) {
    if (!weight.into) continue;
    left.push_back(weight.dz.transposed());
    segments.push_back(weight_gradient(weight.into, norm));
  }
  if (segments.empty()) return;
  gemm(segments.size() == 1 ? Factor(left[0]) : concat(left), x, segments, {}, where);
}

void add_weight_gradient(const TensorView& d_out, const TensorView& y, const MainGradient& into,
                         const Execution& where) {
  if (!into) return;
  const Caller caller{"add_weight_gradient", {d_out.device(), "d_out"}};
  require_shape(caller, "d_out", d_out, {{-1, "T"}, {-1, "n"}});
  require_shape(caller, "y", y, {{d_out.shape(0), "T"}, {-1, "k"}});
  require_shape(caller, "into", *into,
                {{d_out.shape(1), "n, the columns of d_out"}, {y.shape(1), "k, the columns of y"}});
  RmsNorm none;
  none.kind = NormWeight::None;
  const Segment segment = weight_gradient(into, none);
  gemm(d_out.transposed(), y, segment.program, segment.operands, {}, where);
}

Tensor linear_backward(const TensorView& d_out, const TensorView& weight, const Execution& where) {
  const Caller caller{"linear_backward", {d_out.device(), "d_out"}};
  require_shape(caller, "d_out", d_out, {{-1, "T"}, {-1, "n"}});
  require_shape(caller, "weight", weight, {{d_out.shape(1), "n, the columns of d_out"}, {-1, "k"}});
  static const Program program = epilogues::identity();
  Tensor d_y = Tensor::empty({d_out.shape(0), weight.shape(1)}, d_out.dtype(), d_out.device(), where.stream);
  gemm(d_out, weight, program, {{"out", d_y}}, {}, where);
  return d_y;
}

}  // namespace coda
