// Checks of the options several programs share.
#include <cmath>

#include "core/check.h"
#include "library/pieces.h"

namespace coda::epilogues {

void require_eps(std::string_view call, std::string_view option, double eps) {
  REQUIRE(ValueError, std::isfinite(eps) && eps >= 0, call, ": ", option, " is ", eps,
          ", expected a finite number, 0 or above: it is added to a mean square");
}

void require_head(std::string_view call, const Rope& rope) {
  REQUIRE(ValueError, rope.head > 0, call, ": rope.head is ", rope.head,
          ", expected the width of one head in columns, above 0");
}

void require_partial_width(std::string_view call, std::string_view option, std::int64_t width) {
  REQUIRE(ValueError, width > 0 && width % 64 == 0, call, ": ", option, " is ", width,
          ", expected a multiple of 64 columns, above 0: a partial result covers whole tiles");
}

}  // namespace coda::epilogues
