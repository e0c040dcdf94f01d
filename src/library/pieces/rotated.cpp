// Rotary embedding: each pair (first, second) turned by the angle position · frequency of the pair.
#include <cmath>

#include "core/check.h"
#include "library/pieces.h"

namespace coda::epilogues {
namespace {

Pairing pairing_of(std::string_view call, const Rope& rope) {
  require_head(call, rope);
  const std::int64_t width = rope.width == 0 ? rope.head : rope.width;
  REQUIRE(ValueError, 0 < width && width <= rope.head, call, ": rope.width is ", width,
          ", expected 0 (the whole head) to ", rope.head, " (rope.head): only columns of the head rotate");
  REQUIRE(ValueError, width % 2 == 0, call, ": rope.width is ", width,
          ", expected an even number: columns rotate in pairs; choose an even rope.width below rope.head (", rope.head,
          ") to leave columns unrotated");
  return {rope.interleaved ? Pairing::Kind::Interleaved : Pairing::Kind::Halves, rope.head, width};
}

// One number a pair: how far it turns from one position to the next.
Value frequency_of(Builder& b, std::string_view call, const Rope& rope, const Pairing& pairing) {
  const std::int64_t pairs = pairing.width / 2;
  if (rope.angles == Rope::Angles::Frequency)
    return b.load_row("frequencies", {.period = pairs, .pairing = pairing}).named("frequency");
  REQUIRE(ValueError, std::isfinite(rope.base) && rope.base > 0, call, ": rope.base is ", rope.base,
          ", expected a finite number above 0, such as 10000");
  // base^(−2p/width) as a power of 2.
  const double exponent = -2.0 / static_cast<double>(pairing.width) * std::log2(rope.base);
  return exp2(b.col_index(pairs, pairing).named("pair") * exponent).named("frequency");
}

struct CosSin {
  Value cos, sin;
};

CosSin angles_of(Builder& b, std::string_view call, const Rope& rope, const Pairing& pairing) {
  const auto scaled = [&](const Value& value) { return rope.scale == 1 ? value : value * rope.scale; };
  if (rope.angles == Rope::Angles::Table) {
    const LoadOptions one_head{.period = pairing.width / 2, .pairing = pairing};
    const Value cos = b.load_tile("cos", one_head), sin = b.load_tile("sin", one_head);
    return {scaled(cos).named("cos"), scaled(sin).named("sin")};
  }
  const Value position = b.load_col("positions").named("position");
  const Value angle = (position * frequency_of(b, call, rope, pairing)).named("angle");
  return {scaled(cos(angle)).named("cos"), scaled(sin(angle)).named("sin")};
}

}  // namespace

Value rotated(Builder& b, std::string_view call, const Value& z, const Rope& rope) {
  REQUIRE(ValueError, std::isfinite(rope.scale), call, ": rope.scale is ", rope.scale, ", expected a finite number");
  const Pairing pairing = pairing_of(call, rope);
  const auto [cos, sin] = angles_of(b, call, rope, pairing);
  const auto [first, second] = split(z, pairing);
  first.named("first");
  second.named("second");
  const Value first_cos = first * cos, second_sin = second * sin;
  const Value first_sin = first * sin, second_cos = second * cos;
  const Value turned_first = (first_cos - second_sin).named("turned_first");
  const Value turned_second = (second_cos + first_sin).named("turned_second");
  return join(turned_first, turned_second, pairing.has_rest() ? z : Value());
}

}  // namespace coda::epilogues
