#include "blocks/f16_range.h"

#include <algorithm>
#include <cmath>

#include "blocks/copies.h"
#include "blocks/partials.h"
#include "coda/gemm.h"
#include "core/check.h"

namespace coda {
namespace {

constexpr double kLargest = 65504, kSmallestNormal = 0x1p-14;

std::int64_t counted(std::span<const std::int64_t> targets, const HeadOptions& options) {
  return std::ssize(targets) - std::count(targets.begin(), targets.end(), options.ignore_index);
}

/// The power of two that makes it 1 to 2, the middle of the range: small probabilities and the products behind the
/// logits lie below the share.
double scale_of(double share) { return std::exp2(std::ceil(-std::log2(share))); }

}  // namespace

double token_share(std::span<const std::int64_t> targets, const HeadOptions& options) {
  return options.reduction == LossReduction::Mean ? options.factor / static_cast<double>(counted(targets, options))
                                                  : options.factor;
}

void require_normal_share(std::string_view call, DType dtype, std::span<const std::int64_t> targets,
                          const HeadOptions& options) {
  const double share = std::abs(token_share(targets, options));
  const bool is_below = share < kSmallestNormal && share != 0;
  REQUIRE(ValueError, dtype != DType::F16 || !is_below, call, ": factor is ", options.factor, " over ",
          counted(targets, options), " tokens, ", share, " for each, expected at least 2^-14 = ", kSmallestNormal,
          ", the smallest normal f16: the gradient by f16 logits loses bits below it: pass factor ",
          options.factor * scale_of(share), " with f32 gradients, and divide them by ", scale_of(share));
}

void require_finite_rows(std::string_view call, DType dtype, const TensorView& of_rows) {
  if (dtype != DType::F16) return;
  const auto* values = static_cast<const float*>(of_rows.data());
  const auto* end = values + of_rows.size();
  const auto* bad = std::find_if(values, end, [](float value) { return !std::isfinite(value); });
  REQUIRE(ValueError, bad == end, call, ": the loss of row ", (bad - values) * of_rows.shape(0) / of_rows.size(),
          " is NaN or infinite in f16, expected a number: x or x·γ has passed ", kLargest,
          ", the largest f16, or the weights hold NaN: run the model in bf16 or f32");
}

void require_finite_stream(std::string_view call, const NormedStream& stream, const Execution& where) {
  const TensorView& h = stream.h;
  if (h.dtype() != DType::F16) return;
  const std::int64_t rows = h.shape(0), width = h.shape(1);
  const Tensor sums = Tensor::empty({rows, partial_count_for(width)}, DType::F32, h.device(), where.stream);
  // Squares of f16 cannot overflow an fp32 sum: it is finite where all of the row is.
  const epilogues::RmsEntry squares{epilogues::NormWeight::None, partial_width_for(width)};
  elementwise(rows, width, epilogues::rms_entry(squares), {{"x", h}, {"sum_sq", sums}}, {}, where);
  require_finite_rows(call, h.dtype(), on_host(sums, where));
}

}  // namespace coda
