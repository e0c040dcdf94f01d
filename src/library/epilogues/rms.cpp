#include "library/pieces.h"

namespace coda::epilogues {

Program rms(const Rms& options) {
  Builder b("rms");
  const Value acc = b.acc();
  const Value rstd = row_factor(b, "rms", options.norm);
  b.store("out", biased(b, acc * rstd, options.bias).named("out"));
  return b.build();
}

}  // namespace coda::epilogues
