#include "library/pieces.h"

namespace coda::epilogues {

Program sigmoid() {
  Builder b("sigmoid");
  b.store("out", sigmoid(b.acc()).named("out"));
  return b.build();
}

}  // namespace coda::epilogues
