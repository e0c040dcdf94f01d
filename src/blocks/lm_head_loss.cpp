// Cross entropy of the head: the product leaves log-sum-exp partials and the target's logit of each token; passes over
// them finish the loss of each.
#include <span>

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
Loss reduced(const Tensor& per_token, std::span<const std::int64_t> targets, LossReduction reduction,
             std::int64_t ignore_index) {
  Loss loss;
  loss.per_token = per_token;
  auto* values = per_token.data<float>();
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

}  // namespace

Loss lm_head_loss(const NormedStream& stream, const RmsNorm& norm, const TensorView& weight, const TensorView& targets,
                  LossReduction reduction, std::int64_t ignore_index, const Execution& where) {
  const Caller caller = require_stream("lm_head_loss", stream);
  const TensorView& h = stream.h;
  const Device device = h.device();
  const std::int64_t rows = h.shape(0);
  require_shape(caller, "weight", weight, {{-1, "V"}, {h.shape(1), "d, the width of the stream"}});
  const std::int64_t vocabulary = weight.shape(0);
  REQUIRE(ValueError, vocabulary > 0, "lm_head_loss: weight has shape ", shape_text(weight.shape()),
          ", expected at least one row: the vocabulary is empty");
  const std::vector<std::int64_t> numbers = read_targets(caller, targets, rows, vocabulary, ignore_index, where);

  const bool on_gpu = device.kind != DeviceKind::Cpu;
  const std::int64_t width = row_partial_width(vocabulary, device);
  const auto made = [&](std::initializer_list<std::int64_t> shape) {
    return Tensor::empty(shape, DType::F32, device, where.stream);
  };
  const Tensor lse = made({rows, (vocabulary + width - 1) / width}), target = made({rows}), per_token = made({rows});
  const Tensor moved = targets.device() == device ? Tensor() : indices_on(device, numbers, where);
  const epilogues::RmsLse options{delayed(stream, norm), {width, ignore_index}};
  const Program program =
      remembered(std::tuple(key_of(options.norm), options.lse.partial_width, options.lse.ignore_index),
                 [&] { return epilogues::rms_lse(options); });
  gemm(h, weight.transposed(), program,
       {{"sum_sq", stream.sum_sq},
        {"targets", targets.device() == device ? targets : moved.view()},
        {"lse", lse},
        {"target", target}},
       {}, where);

  static const Program finish = finish_program();
  elementwise(rows, 1, finish,
              {{"lse", few_enough(lse, Reduction::LogSumExp, where)}, {"target", target}, {"loss", per_token}}, {},
              where);
  return reduced(on_gpu ? Tensor::copy_to(per_token, {}, where.stream) : per_token, numbers, reduction, ignore_index);
}

}  // namespace coda
