#include "library/pieces.h"

namespace coda::epilogues {

Program rms_gated(const RmsGated& options) {
  Builder b("rms_" + gate_name(options.gated));
  const Value first = b.acc(0), second = b.acc(1);
  const Value rstd = row_factor(b, "rms_gated", options.norm);
  const Value gate = first * rstd, up = second * rstd;
  store_gated(b, gate, up, options.gated);
  return b.build();
}

}  // namespace coda::epilogues
