#include "library/pieces.h"

namespace coda::epilogues {

Program residual() {
  Builder b("residual");
  const Value acc = b.acc();
  b.store("out", (acc + b.load_tile("residual").named("residual")).named("out"));
  return b.build();
}

}  // namespace coda::epilogues
