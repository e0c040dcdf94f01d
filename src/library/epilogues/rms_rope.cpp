#include "library/pieces.h"

namespace coda::epilogues {

Program rms_rope(const RmsRope& options) {
  Builder b("rms_rope");
  const Value acc = b.acc();
  const Value rstd = row_factor(b, "rms_rope", options.norm);
  const Value z = biased(b, acc * rstd, options.bias).named("z");
  b.store("out", rotated(b, "rms_rope", z, options.rope).named("out"));
  return b.build();
}

}  // namespace coda::epilogues
