#include "library/pieces.h"

namespace coda::epilogues {

Program rms_lse(const RmsLse& options) {
  Builder b("rms_lse");
  const Value acc = b.acc();
  const Value rstd = row_factor(b, "rms_lse", options.norm);
  store_loss(b, "rms_lse", acc * rstd, options.lse);
  return b.build();
}

}  // namespace coda::epilogues
