#include "library/pieces.h"

namespace coda::epilogues {

void store_norm_input(Builder& b, std::string_view call, const Value& x, NormWeight weight,
                      std::int64_t partial_width) {
  require_partial_width(call, "partial_width", partial_width);
  if (weight != NormWeight::None) b.store("h", weighted(b, x, weight).named("h"));
  b.store("sum_sq", reduce_row(square(x).named("x_sq"), Reduction::Sum, partial_width).named("sum_sq"));
}

}  // namespace coda::epilogues
