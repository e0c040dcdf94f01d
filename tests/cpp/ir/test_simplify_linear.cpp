// simplify moves inner products across linear maps: rotations, sums of maps, swaps.
#include <gtest/gtest.h>

#include "coda/build.h"
#include "support/evaluate.h"

namespace coda {
namespace {

using testing_support::evaluate;
using testing_support::Grids;
using testing_support::random_inputs;

struct Rotation {
  const char* name;
  Pairing pairing;
  double scale;
  std::int64_t partial_width;
  bool z_is_rotated;  // q = rope(z) is in the program
  bool moves;
};

// What the backward of a rotation looks like before it is simplified: q = rope(z), dz = ropeᵀ(dq), Σ dz·z.
Program rotation_backward(const Rotation& rotation) {
  Builder b("rope_backward");
  const Value z = b.acc().named("z"), dq = b.load_tile("dq").named("dq");
  const LoadOptions half{.period = rotation.pairing.width / 2, .pairing = rotation.pairing};
  const Value cosine = b.load_tile("cos", half) * rotation.scale, sine = b.load_tile("sin", half) * rotation.scale;
  const auto rest = [&](const Value& value) { return rotation.pairing.has_rest() ? value : Value(); };
  if (rotation.z_is_rotated) {
    const auto [a, c] = split(z, rotation.pairing);
    const Value upper = a * cosine - c * sine, lower = c * cosine + a * sine;
    b.store("q", join(upper, lower, rest(z)).named("q"));
  }
  const auto [da, dc] = split(dq, rotation.pairing);
  const Value upper = da * cosine + dc * sine, lower = dc * cosine - da * sine;
  const Value dz = join(upper, lower, rest(dq)).named("dz");
  const Value r = b.load_col("r");
  b.store("dz", dz * r);
  b.store("s", reduce_row(dz * z, Reduction::Sum, rotation.partial_width));
  return b.build();
}

TEST(Simplify, MovesInnerProductsAcrossRotations) {
  using Kind = Pairing::Kind;
  for (const Rotation& rotation : {Rotation{"halves", {Kind::Halves, 64, 64}, 1, 64, true, true},
                                   Rotation{"interleaved", {Kind::Interleaved, 64, 64}, 1, 128, true, true},
                                   Rotation{"partial halves", {Kind::Halves, 64, 32}, 1, 64, true, true},
                                   Rotation{"partial interleaved", {Kind::Interleaved, 32, 8}, 1, 64, true, true},
                                   Rotation{"scaled", {Kind::Halves, 64, 48}, 0.75, 64, true, true},
                                   Rotation{"no q", {Kind::Halves, 64, 64}, 1, 64, false, false},
                                   Rotation{"heads across partials", {Kind::Halves, 96, 96}, 1, 64, true, false}}) {
    SCOPED_TRACE(rotation.name);
    const Program program = rotation_backward(rotation), simple = simplify(program);
    const std::string text = to_text(simple);
    EXPECT_EQ(text.find("mul(dq, q)") != std::string::npos, rotation.moves) << text;
    EXPECT_EQ(text.find("mul(dz, z)") != std::string::npos, !rotation.moves) << text;
    const Grids inputs = random_inputs(program, 3, 192, 1);
    const auto before = evaluate(program, inputs, 3, 192).at("s"), after = evaluate(simple, inputs, 3, 192).at("s");
    ASSERT_EQ(before.data.size(), after.data.size());
    for (std::size_t i = 0; i < before.data.size(); ++i) EXPECT_NEAR(before.data[i], after.data[i], 1e-10);
  }
}

// A sum of maps of one value, a scale, a sum over heads, row factors outside the product: all are linear.
TEST(Simplify, MovesInnerProductsAcrossSumsOfMaps) {
  for (const bool affine : {false, true}) {
    Builder b("sums");
    const Value z = b.acc().named("z"), g = b.load_tile("g").named("g"), w = b.load_row("w"), r = b.load_col("r");
    const auto map = [&](const Value& value) { return span_sum(value * w, 32) * w - value / r; };
    b.store("q", map(z).named("q"));
    const Value image = map(g);
    const Value u = (affine ? image + b.load_row("bias") : image).named("u");
    b.store("u", exp(u));
    b.store("s", reduce_row(u * z * r, Reduction::Sum, 64));
    const std::string text = to_text(simplify(b.build()));
    EXPECT_EQ(text.find("mul(g, q)") != std::string::npos, !affine) << text;
  }
}

TEST(Simplify, UnrotatedValueIsNoLongerReadWhereItServedTheSumAlone) {
  const Pairing pairing{Pairing::Kind::Halves, 64, 64};
  Builder b("swap");
  const Value z = b.load_tile("z"), dq = b.load_tile("dq").named("dq");
  const auto swap = [&](const Value& value) {
    const auto [first, second] = split(value, pairing);
    return join(second, first);
  };
  b.store("s", reduce_row(swap(dq) * swap(swap(z)), Reduction::Sum, 64));
  b.store("q", swap(z).named("q"));
  EXPECT_NE(to_text(simplify(b.build())).find("mul(dq, q)"), std::string::npos);
}

}  // namespace
}  // namespace coda
