#include "library/pieces.h"

namespace coda::epilogues {

Program residual_rms(const ResidualRms& options) {
  Builder b("residual_rms");
  const Value z = biased(b, b.acc(), options.bias);
  const Value x = (z + b.load_tile("residual").named("residual")).named("x");
  b.store("x", x);
  store_norm_input(b, "residual_rms", x, options.weight, options.partial_width);
  return b.build();
}

}  // namespace coda::epilogues
