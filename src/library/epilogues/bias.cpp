#include "library/pieces.h"

namespace coda::epilogues {

Program bias(const std::string& activation) {
  Builder b(activation.empty() ? "bias" : "bias_" + std::string(find_activation(activation).name));
  const Value z = biased(b, b.acc(), true).named("z");
  b.store("out", activation.empty() ? z : find_activation(activation).apply(z).named("out"));
  return b.build();
}

}  // namespace coda::epilogues
