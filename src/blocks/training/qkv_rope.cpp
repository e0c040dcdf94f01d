// qkv_rope, backward: one pass over q, k and v side by side; their products with the weights are the stream's.
#include "blocks/qkv_rope.h"

#include <algorithm>

#include "blocks/copies.h"
#include "blocks/remembered.h"
#include "blocks/training/gradients.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

constexpr std::string_view kCall = "qkv_rope_backward";

Backward backward_of(const Program& forward, const std::vector<std::string>& wrt, std::int64_t width) {
  std::vector<Cotangent> cotangents{Cotangent::load("out")};
  if (forward.find_operand("z") >= 0) cotangents.push_back(Cotangent::none("z"));
  return differentiate(forward, wrt, cotangents, {.partial_width = width, .partial_rows = kColPartialWidth});
}

/// One of q, k and v: what its forward kept, and where its gradients go.
struct Part {
  const char* name;
  const TensorView& d_out;
  const Tensor& out;
  const std::optional<Tensor>& z;
  const TensorView& weight;
  const std::optional<TensorView>& bias;
  const std::optional<RmsNorm>& head_norm;
  const MainGradient &into, &into_bias, &into_norm;
};

void check_part(const Caller& caller, const Part& part, std::int64_t rows) {
  const std::string name = part.name;
  const Extent extents[] = {{rows, "T"}, {part.weight.shape(0), "the rows of its weight"}};
  require_shape(caller, "d_" + name, part.d_out, {extents[0], extents[1]});
  require_shape(caller, "saved." + name, part.out, {extents[0], extents[1]});
  const bool needs_z = RotatedPart{part.bias, part.head_norm}.needs_z() && name != "v";
  REQUIRE(ValueError, !needs_z || part.z, kCall, ": saved.", name,
          "z is missing, expected what qkv_rope_saved kept of a projection with a norm");
  if (needs_z) require_shape(caller, "saved." + name + "z", *part.z, {extents[0], extents[1]});
  require_main(caller, name, part.into, part.weight);
  REQUIRE(ValueError, part.bias || !part.into_bias, kCall, ": into.", name,
          "_bias is given, but there is no such bias: leave it out");
  if (part.bias) require_main(caller, name + "_bias", part.into_bias, *part.bias);
  const bool has_weight = part.head_norm && part.head_norm->kind != epilogues::NormWeight::None;
  REQUIRE(ValueError, has_weight || !part.into_norm, kCall, ": into.", name,
          "_norm is given, but there is no such norm with a weight: leave it out");
  if (has_weight) require_main(caller, name + "_norm", part.into_norm, part.head_norm->weight);
}

/// dz of a part, and what its row sums lack.
struct Done {
  Tensor dz;
  Program finish;
};

/// The passes over the parts, side by side.
class Passes {
 public:
  Passes(const SavedStream& stream, const epilogues::DelayedRms& norm, const RowSums& sums, const Execution& where)
      : stream_(stream),
        norm_(norm),
        sums_(sums),
        where_(where),
        col_sums_(stream.x.view().shape(0), stream.x.view().device(), where) {}

  /// Of q or k.
  Done rotated(const Caller& caller, const Part& part, const epilogues::Rope& rope, const RopeTensors& tensors) {
    const RotatedPart forward{part.bias, part.head_norm};
    const Program program = rotated_program(norm_, rope, forward, forward.needs_z());
    Operands operands;
    bind_rotated(caller, rope, tensors, forward, operands);
    if (part.z) operands.push_back({"z", *part.z});
    return add(program, part, std::move(operands));
  }

  /// Of v.
  Done plain(const Part& part) {
    Operands operands;
    if (part.bias) operands.push_back({"bias", *part.bias});
    return add(value_program(norm_, part.bias.has_value()), part, std::move(operands));
  }

  void run() const {
    elementwise(stream_.x.view().shape(0), cols_, segments_, {}, where_);
    col_sums_.add();
  }

 private:
  Done add(const Program& forward, const Part& part, Operands all) {
    const Backward backward = remembered(
        std::tuple(to_text(forward), part.into_bias.has_value(), part.into_norm.has_value(), sums_.width()), [&] {
          return backward_of(forward, wrt_of({"acc0", "sum_sq"}, {{"bias", part.into_bias}, {"gamma", part.into_norm}}),
                             sums_.width());
        });
    const std::int64_t cols = part.out.view().shape(1);
    const TensorView& x = stream_.x;
    const Tensor dz = Tensor::empty({x.shape(0), cols}, x.dtype(), x.device(), where_.stream);
    all.push_back({"d_out", part.d_out});
    all.push_back({"out", part.out});
    all.push_back({"sum_sq", stream_.sum_sq});
    all.push_back({"d_acc0", dz});
    all.push_back({"s_sum_sq", sums_.part(segments_.size())});
    col_sums_.bind(all, "bias", cols, part.into_bias);
    col_sums_.bind(all, "gamma", cols, part.into_norm);
    segments_.push_back({backward.program, used(backward.program, all)});
    cols_.push_back(cols);
    return {dz, finish_of(backward)};
  }

  const SavedStream& stream_;
  epilogues::DelayedRms norm_;
  const RowSums& sums_;
  const Execution& where_;
  ColGradients col_sums_;
  std::vector<std::int64_t> cols_;
  std::vector<Segment> segments_;
};

/// One sum for all parts whose sums lack the same, as those of LLaMA do; else one for each.
std::vector<StreamSum> sums_of(std::initializer_list<Done> parts, const RowSums& sums, const Execution& where) {
  const auto lacks = [](const Done& part) {
    Program::Data data = part.finish.data();
    data.name = "finish";
    return to_text(Program(std::move(data)));
  };
  const std::string first = lacks(*parts.begin());
  if (std::ranges::all_of(parts, [&](const Done& part) { return lacks(part) == first; }))
    return {{sums.finished(where), parts.begin()->finish}};
  std::vector<StreamSum> result;
  for (const Done& part : parts)
    result.push_back(
        {few_enough(copied(sums.part(result.size()), DType::F32, where), Reduction::Sum, where), part.finish});
  return result;
}

}  // namespace

StreamGradient qkv_rope_backward(const TensorView& d_q, const TensorView& d_k, const TensorView& d_v,
                                 const SavedQkv& saved, const SavedStream& stream, const RmsNorm& norm,
                                 const QkvWeights& weights, const epilogues::Rope& rope, const RopeTensors& tensors,
                                 const QkvGradients& into, const Execution& where) {
  const Caller caller = require_saved(kCall, stream);
  const TensorView& x = stream.x;
  require_norm(caller, "norm.weight", norm, x.shape(1));
  require_qkv(caller, weights, rope, x.shape(1));
  const std::optional<RmsNorm> no_norm;
  const std::optional<Tensor> no_z;
  const MainGradient frozen;
  const Part parts[] = {
      {"q", d_q, saved.q, saved.qz, weights.q, weights.q_bias, weights.q_norm, into.q, into.q_bias, into.q_norm},
      {"k", d_k, saved.k, saved.kz, weights.k, weights.k_bias, weights.k_norm, into.k, into.k_bias, into.k_norm},
      {"v", d_v, saved.v, no_z, weights.v, weights.v_bias, no_norm, into.v, into.v_bias, frozen}};
  for (const Part& part : parts) check_part(caller, part, x.shape(0));

  const RowSums sums(x.shape(0), {weights.q.shape(0), weights.k.shape(0), weights.v.shape(0)}, x.device(), where,
                     rope.head);
  Passes passes(stream, {x.shape(1), norm.eps}, sums, where);
  const Done q = passes.rotated(caller, parts[0], rope, tensors);
  const Done k = passes.rotated(caller, parts[1], rope, tensors);
  const Done v = passes.plain(parts[2]);
  passes.run();
  add_normed_weight_gradients({{q.dz, into.q}, {k.dz, into.k}, {v.dz, into.v}}, x, norm, where);
  return {{q.dz, k.dz, v.dz}, {weights.q, weights.k, weights.v}, {}, sums_of({q, k, v}, sums, where), {}};
}

}  // namespace coda
