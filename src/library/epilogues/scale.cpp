#include "library/pieces.h"

namespace coda::epilogues {

Program scale() {
  Builder b("scale");
  const Value alpha = b.load_scalar("alpha").named("alpha");
  b.store("out", (b.acc() * alpha).named("out"));
  return b.build();
}

}  // namespace coda::epilogues
