#include "library/pieces.h"

namespace coda::epilogues {

Value head_normed(std::string_view call, const Value& z, std::int64_t head, double eps) {
  require_eps(call, "eps", eps);
  const Value mean_sq = (span_sum(square(z), head) / static_cast<double>(head)).named("head_mean_sq");
  return (z * rsqrt(mean_sq + eps).named("head_rstd")).named("normed");
}

}  // namespace coda::epilogues
