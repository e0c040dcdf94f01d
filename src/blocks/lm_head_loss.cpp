// Cross entropy of the head: the product leaves log-sum-exp partials and the target's logit of each token; a pass over
// T numbers finishes them.
#include "blocks/arguments.h"
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

/// Sets ignored tokens to 0 and sums the others.
Loss reduced(const Tensor& per_token, const TensorView& targets, LossReduction reduction, std::int64_t ignore_index) {
  Loss loss;
  loss.per_token = per_token;
  auto* values = per_token.data<float>();
  double sum = 0;
  for (std::int64_t row = 0; row < targets.shape(0); ++row) {
    if (index_at(targets, row) == ignore_index) {
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

}  // namespace

Loss lm_head_loss(const NormedStream& stream, const RmsNorm& norm, const TensorView& weight, const TensorView& targets,
                  LossReduction reduction, std::int64_t ignore_index) {
  require_stream("lm_head_loss", stream);
  const TensorView& h = stream.h;
  const std::int64_t rows = h.shape(0);
  require_shape("lm_head_loss", "weight", weight, {{-1, "V"}, {h.shape(1), "d, the width of the stream"}});
  const std::int64_t vocabulary = weight.shape(0);
  REQUIRE(ValueError, vocabulary > 0, "lm_head_loss: weight has shape ", shape_text(weight.shape()),
          ", expected at least one row: the vocabulary is empty");
  check_targets("lm_head_loss", targets, rows, vocabulary, ignore_index);

  const Tensor lse = Tensor::empty({rows, partial_count_for(vocabulary)}, DType::F32);
  const Tensor target = Tensor::empty({rows}, DType::F32);
  const epilogues::RmsLse options{delayed(stream, norm), {partial_width_for(vocabulary), ignore_index}};
  const Program program =
      remembered(std::tuple(key_of(options.norm), options.lse.partial_width, options.lse.ignore_index),
                 [&] { return epilogues::rms_lse(options); });
  gemm(h, weight.transposed(), program,
       {{"sum_sq", stream.sum_sq}, {"targets", targets}, {"lse", lse}, {"target", target}});

  static const Program finish = finish_program();
  const Tensor per_token = Tensor::empty({rows}, DType::F32);
  elementwise(rows, 1, finish, {{"lse", lse}, {"target", target}, {"loss", per_token}});
  return reduced(per_token, targets, reduction, ignore_index);
}

}  // namespace coda
