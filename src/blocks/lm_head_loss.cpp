#include "blocks/lm_head_loss.h"

#include "blocks/copies.h"
#include "blocks/indices.h"
#include "blocks/remembered.h"
#include "coda/build.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

/// loss = log Σ exp − target's logit
Program finish_program() {
  Builder b("finish_loss");
  const Value lse = b.load_partials("lse", Reduction::LogSumExp).named("lse");
  b.store("loss", (lse - b.load_col("target").named("target")).named("loss"));
  return b.build();
}

/// Program of the product.
epilogues::RmsLse options_of(const Head& head, bool store_logits) {
  const std::int64_t width = row_partial_width(head.weight.shape(0), head.stream.h.view().device());
  return {delayed(head.stream, head.norm), {width, head.ignore_index, store_logits}};
}

}  // namespace

HeadTargets::HeadTargets(const Caller& caller, const Head& head, const TensorView& targets, const Execution& where) {
  const TensorView& h = head.stream.h;
  require_shape(caller, "weight", head.weight, {{-1, "V"}, {h.shape(1), "d, the width of the stream"}});
  REQUIRE(ValueError, head.weight.shape(0) > 0, caller.name, ": weight has shape ", shape_text(head.weight.shape()),
          ", expected at least one row: the vocabulary is empty");
  numbers = read_targets(caller, targets, h.shape(0), head.weight.shape(0), head.ignore_index, where);
  if (targets.device() != h.device()) moved_ = indices_on(h.device(), numbers, where);
  view = targets.device() == h.device() ? targets : moved_.view();
}

Program head_program(const Head& head, bool store_logits) {
  const epilogues::RmsLse options = options_of(head, store_logits);
  const epilogues::Lse& lse = options.lse;
  return remembered(std::tuple(key_of(options.norm), lse.partial_width, lse.ignore_index, store_logits),
                    [&] { return epilogues::rms_lse(options); });
}

Tensor run_head(const Head& head, const HeadRows& rows, const Execution& where) {
  const TensorView h = rows.of(head.stream.h);
  const std::int64_t vocabulary = head.weight.shape(0), width = options_of(head, false).lse.partial_width;
  const auto made = [&](std::initializer_list<std::int64_t> shape) {
    return Tensor::empty(shape, DType::F32, h.device(), where.stream);
  };
  const Tensor lse = made({h.shape(0), (vocabulary + width - 1) / width}), target = made({h.shape(0)});
  Operands operands{
      {"sum_sq", rows.of(head.stream.sum_sq)}, {"targets", rows.of(rows.targets)}, {"lse", lse}, {"target", target}};
  if (rows.logits) operands.push_back({"logits", *rows.logits});
  gemm(h, head.weight.transposed(), head_program(head, rows.logits.has_value()), operands, {}, where);

  static const Program finish = finish_program();
  const Tensor few = few_enough(lse, Reduction::LogSumExp, where);
  elementwise(h.shape(0), 1, finish, {{"lse", few}, {"target", target}, {"loss", rows.of(rows.per_token)}}, {}, where);
  return few;
}

Loss reduced_loss(const Tensor& per_token, std::span<const std::int64_t> targets, LossReduction reduction,
                  std::int64_t ignore_index, const Execution& where) {
  Loss loss;
  loss.per_token = on_host(per_token, where);
  auto* values = loss.per_token.data<float>();
  double sum = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] == ignore_index) {
      values[row] = 0;
      continue;
    }
    sum += static_cast<double>(values[row]);
    ++loss.counted;
  }
  switch (reduction) {
    case LossReduction::Mean:
      loss.value = sum / static_cast<double>(loss.counted);  // 0/0 is NaN when nothing counts, as in PyTorch
      break;
    case LossReduction::Sum: loss.value = sum; break;
    case LossReduction::None: break;
  }
  return loss;
}

Loss lm_head_loss(const NormedStream& stream, const RmsNorm& norm, const TensorView& weight, const TensorView& targets,
                  LossReduction reduction, std::int64_t ignore_index, const Execution& where) {
  const Caller caller = require_stream("lm_head_loss", stream);
  const Head head{stream, norm, weight, ignore_index};
  const HeadTargets read(caller, head, targets, where);
  const TensorView& h = stream.h;
  const Tensor per_token = Tensor::empty({h.shape(0)}, DType::F32, h.device(), where.stream);
  run_head(head, {0, h.shape(0), read.view, per_token, {}}, where);
  return reduced_loss(per_token, read.numbers, reduction, ignore_index, where);
}

}  // namespace coda
