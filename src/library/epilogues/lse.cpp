#include "library/pieces.h"

namespace coda::epilogues {

Program lse(const Lse& options) {
  Builder b("lse");
  store_loss(b, "lse", b.acc(), options);
  return b.build();
}

}  // namespace coda::epilogues
