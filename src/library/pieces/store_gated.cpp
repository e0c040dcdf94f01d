#include "library/pieces.h"

namespace coda::epilogues {

std::string gate_name(const Gated& options) {
  return options.clamped ? "clamped_swiglu" : std::string(find_gate(options.gate).name);
}

void store_gated(Builder& b, const Value& first, const Value& second, const Gated& options) {
  const Value gate = biased(b, first, options.bias, "gate_bias").named("gate");
  const Value up = biased(b, second, options.bias, "up_bias").named("up");
  if (options.save_inputs) {
    b.store("gate", gate);
    b.store("up", up);
  }
  const Value out =
      options.clamped ? clamped_swiglu(gate, up, *options.clamped) : find_gate(options.gate).apply(gate, up);
  b.store("out", out.named("out"));
}

}  // namespace coda::epilogues
