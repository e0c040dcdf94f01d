#include "library/pieces.h"

namespace coda::epilogues {

Program rope(const RopeEpilogue& options) {
  Builder b("rope");
  const Value z = biased(b, b.acc(), options.bias).named("z");
  b.store("out", rotated(b, "rope", z, options.rope).named("out"));
  return b.build();
}

}  // namespace coda::epilogues
