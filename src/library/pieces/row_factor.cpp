#include "core/check.h"
#include "library/pieces.h"

namespace coda::epilogues {

Value row_factor(Builder& b, std::string_view call, const DelayedRms& norm) {
  REQUIRE(ValueError, norm.count > 0, call, ": norm.count is ", norm.count,
          ", expected the width of the norm, above 0: the sum of squares is divided by it");
  require_eps(call, "norm.eps", norm.eps);
  const Value sum_sq = b.load_partials("sum_sq").named("sum_sq");
  const Value mean_sq = (sum_sq / static_cast<double>(norm.count)).named("mean_sq");
  return rsqrt(mean_sq + norm.eps).named("rstd");
}

}  // namespace coda::epilogues
