// Cross entropy of the head, forward and backward a chunk of tokens at a time: the chunk's logits are stored, become
// their gradient in place, and are a factor of two products.
#include "blocks/lm_head_loss.h"

#include <algorithm>

#include "blocks/f16_range.h"
#include "blocks/remembered.h"
#include "blocks/training/gradients.h"
#include "coda/build.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

constexpr std::string_view kCall = "lm_head_loss_backward";
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

/// Tokens of a chunk: so many that column and row partials of the chunks fit together.
std::int64_t chunk_of(const HeadOptions& options, std::int64_t vocabulary, DType dtype) {
  if (options.chunk_tokens > 0) return options.chunk_tokens;
  const std::int64_t fit = kChunkBytes / (vocabulary * static_cast<std::int64_t>(size_of(dtype)));
  return std::max<std::int64_t>(fit / kColPartialWidth, 1) * kColPartialWidth;
}

/// The gradient by each token's log-sum-exp and, negative, by its target's logit.
struct Shares {
  Tensor lse, target;  ///< (T,) f32
};
Shares shares_of(const std::vector<std::int64_t>& targets, const HeadOptions& options, Device device,
                 const Execution& where) {
  const auto rows = static_cast<std::int64_t>(targets.size());
  const double share = token_share(targets, options);
  std::vector<double> lse, target;
  for (const std::int64_t number : targets) {
    lse.push_back(number == options.ignore_index ? 0 : share);
    target.push_back(-lse.back());
  }
  const auto placed = [&](const std::vector<double>& values) {
    const Tensor made = Tensor::from({rows}, values, DType::F32);
    return device.kind == DeviceKind::Cpu ? made : Tensor::copy_to(made, device, where.stream);
  };
  return {placed(lse), placed(target)};
}

Program add_program(bool accumulate) {
  Builder b(accumulate ? "add" : "copy");
  b.store("into", b.load_tile("sum").named("sum"), {.accumulate = accumulate});
  return b.build();
}

/// The weight's gradient over the chunks: in the main gradient itself, or in fp32 beside a main gradient in which every
/// chunk would round.
class WeightSum {
 public:
  WeightSum(const MainGradient& into, bool has_one_chunk, const Execution& where)
      : into_(into), sum_(into), where_(where) {
    if (!into || has_one_chunk || into->dtype() == DType::F32) return;
    wide_ = Tensor::empty(into->shape(), DType::F32, into->device(), where.stream);
    sum_ = {wide_.view(), MainGradient::Content::Fresh};
  }

  void add(const TensorView& dz, const TensorView& x, const RmsNorm& norm) {
    add_normed_weight_gradients({{dz, sum_}}, x, norm, where_);
    if (sum_) sum_ = *sum_;
  }

  void finish() const {
    if (!is_wide()) return;
    static const Program add = add_program(true), copy = add_program(false);
    elementwise(into_->shape(0), into_->shape(1), into_.is_fresh() ? copy : add, {{"sum", wide_}, {"into", *into_}}, {},
                where_);
  }

 private:
  bool is_wide() const { return wide_.view().rank() > 0; }

  const MainGradient& into_;
  MainGradient sum_;
  Tensor wide_;
  const Execution& where_;
};

Caller check(const NormedStream& stream, const RmsNorm& norm, const TensorView& weight, const HeadOptions& options,
             const MainGradient& into) {
  const Caller caller = require_stream(kCall, stream);
  require_norm(caller, "norm.weight", norm, stream.x.view().shape(1));
  require_main(caller, "weight", into, weight);
  REQUIRE(ValueError, options.reduction != LossReduction::None, kCall,
          ": options.reduction is None, expected Mean or Sum: a gradient is that of one number");
  REQUIRE(ValueError, options.chunk_tokens >= 0 && options.chunk_tokens % kColPartialWidth == 0, kCall,
          ": options.chunk_tokens is ", options.chunk_tokens, ", expected a multiple of ", kColPartialWidth,
          ", or 0 for a choice by memory");
  return caller;
}

}  // namespace

HeadBackward lm_head_loss_backward(const NormedStream& stream, const RmsNorm& norm, const TensorView& weight,
                                   const TensorView& targets, const HeadOptions& options, const MainGradient& into,
                                   const Execution& where) {
  const Caller caller = check(stream, norm, weight, options, into);
  const Head head{stream, norm, weight, options.ignore_index};
  const HeadTargets read(caller, head, targets, where);
  require_normal_share(kCall, stream.h.view().dtype(), read.numbers, options);
  const TensorView &x = stream.x, &h = stream.h;
  const std::int64_t rows = h.shape(0), vocabulary = weight.shape(0);
  const std::int64_t chunk = std::min(chunk_of(options, vocabulary, h.dtype()), std::max<std::int64_t>(rows, 1));
  const Shares shares = shares_of(read.numbers, options, h.device(), where);
  const RowSums sums(rows, {vocabulary}, h.device(), where);
  const Program forward = head_program(head, true);
  const Backward backward = remembered(std::tuple(to_text(forward), sums.width()), [&] {
    return differentiate(forward, {"acc0", "sum_sq"},
                         {Cotangent::load("lse"), Cotangent::load("target"), Cotangent::none("logits")},
                         {.partial_width = sums.width()});
  });

  const auto made = [&](std::int64_t r, std::int64_t c, DType dtype) {
    return Tensor::empty({r, c}, dtype, h.device(), where.stream);
  };
  const Tensor per_token = Tensor::empty({rows}, DType::F32, h.device(), where.stream);
  const Tensor logits = made(chunk, vocabulary, h.dtype()), d_h = made(rows, h.shape(1), h.dtype());
  static const Program product = epilogues::identity();
  WeightSum weight_sum(into, chunk >= rows, where);
  // One chunk at least: without rows a fresh gradient is 0.
  for (std::int64_t start = 0; start == 0 || start < rows; start += chunk) {
    HeadRows part{start, std::min(start + chunk, rows), read.view, per_token, {}};
    part.logits = logits.view().slice(0, 0, part.stop - start);
    const TensorView dz = *part.logits;
    const Tensor lse = run_head(head, part, where);
    elementwise(dz.shape(0), vocabulary, backward.program,
                used(backward.program, {{"d_lse", part.of(shares.lse)},
                                        {"d_target", part.of(shares.target)},
                                        {"targets", part.of(read.view)},
                                        {"logits", dz},
                                        {"lse", lse},
                                        {"sum_sq", part.of(stream.sum_sq)},
                                        {"d_acc0", dz},
                                        {"s_sum_sq", part.of(sums.part(0))}}),
                {}, where);
    gemm(dz, weight, product, {{"out", part.of(d_h)}}, {}, where);
    weight_sum.add(dz, part.of(x), norm);
  }
  if (rows == 0) weight_sum.add(logits.view().slice(0, 0, 0), x, norm);  // a fresh gradient is zero, not what was there
  weight_sum.finish();
  return {reduced_loss(per_token, read.numbers, options.reduction, options.ignore_index, where),
          {{}, {}, d_h, {{sums.finished(where), finish_of(backward)}}, {}}};
}

}  // namespace coda
