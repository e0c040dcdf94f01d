#include "library/pieces.h"

namespace coda::epilogues {

Program rms_entry(const RmsEntry& options) {
  Builder b("rms_entry");
  store_norm_input(b, "rms_entry", b.load_tile("x").named("x"), options.weight, options.partial_width);
  return b.build();
}

}  // namespace coda::epilogues
