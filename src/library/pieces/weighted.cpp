#include "core/check.h"
#include "library/pieces.h"

namespace coda::epilogues {

Value weighted(Builder& b, const Value& x, NormWeight weight, std::int64_t period) {
  const auto gamma = [&] { return b.load_row("gamma", {.period = period}).named("gamma"); };
  switch (weight) {
    case NormWeight::Gamma: return x * gamma();
    case NormWeight::OnePlusGamma: return x * (1.0 + gamma());
    case NormWeight::None: return x;
  }
  INVARIANT(false, "norm weight ", static_cast<int>(weight));
}

}  // namespace coda::epilogues
