#include "library/pieces.h"

namespace coda::epilogues {

Program gated(const Gated& options) {
  Builder b(gate_name(options));
  const Value gate = b.acc(0), up = b.acc(1);
  store_gated(b, gate, up, options);
  return b.build();
}

}  // namespace coda::epilogues
