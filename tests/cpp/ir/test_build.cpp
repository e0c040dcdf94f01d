// What Builder makes: node kinds, inferred types, names, operand declarations.
#include <gtest/gtest.h>

#include "coda/build.h"

namespace coda {
namespace {

const Pairing kHalves{Pairing::Kind::Halves, 64, 64};

TEST(Builder, BroadcastsShapes) {
  Builder b("shapes");
  const Value tile = b.acc(), row = b.load_row("row"), col = b.load_col("col"), scalar = b.load_scalar("scalar");
  EXPECT_EQ((row + scalar).type().shape, Shape::Row);
  EXPECT_EQ((col * scalar).type().shape, Shape::Col);
  EXPECT_EQ((row * col).type().shape, Shape::Tile);
  EXPECT_EQ((scalar + 1.0).type().shape, Shape::Scalar);
  EXPECT_EQ((tile - row).type().shape, Shape::Tile);
}

TEST(Builder, SplitHalvesTheWidthAndJoinRestoresIt) {
  Builder b("pairs");
  const auto [first, second] = split(b.acc(), kHalves);
  EXPECT_EQ(first.type().pairing, kHalves);
  EXPECT_EQ((first * b.load_row("cos", {.period = 32, .pairing = kHalves})).type().pairing, kHalves);
  const Value joined = join(second, first);
  EXPECT_TRUE(joined.type().pairing.is_none());
  EXPECT_EQ(joined.type().shape, Shape::Tile);
}

TEST(Builder, AnOperandLoadedTwiceIsDeclaredOnce) {
  Builder b("twice");
  b.store("out", b.load_tile("x") * b.load_tile("x"));
  const Program program = b.build();
  EXPECT_EQ(program.operands().size(), 2u);
  EXPECT_EQ(program.find_operand("x"), 0);
  EXPECT_EQ(program.find_operand("missing"), -1);
  EXPECT_EQ(program.accumulators(), 0);
}

TEST(Builder, TakenNamesGetANumber) {
  Builder b("names");
  const Value first = (b.acc() + 1.0).named("x"), second = (first + 1.0).named("x");
  b.store("out", second);
  const Program program = b.build();
  EXPECT_EQ(to_text(program).find("x_2 = add(x, "), to_text(program).find("x_2"));
}

TEST(Builder, TextDoesNotDependOnTheOrderOfEvaluation) {
  const auto text = [](bool load_first) {
    Builder b("sum");
    Value acc, bias;
    if (load_first) bias = b.load_row("bias");
    acc = b.acc();
    if (!load_first) bias = b.load_row("bias");
    const Value unused = b.load_col("unused");
    b.store("out", acc + bias);
    b.store("col", unused);
    return to_text(b.build());
  };
  EXPECT_EQ(text(true), text(false));
  EXPECT_EQ(text(true),
            "program sum {\n  in bias: row\n  out out: tile\n  in unused: col\n  out col: col\n\n"
            "  v0 = acc(0)\n  v1 = load(bias)\n  v2 = add(v0, v1)\n  store(out, v2)\n  v4 = load(unused)\n"
            "  store(col, v4)\n}\n");
}

TEST(Builder, ALongChainIsBuilt) {
  Builder b("chain");
  Value sum = b.acc();
  for (int i = 0; i < 100000; ++i) sum = sum + sum;
  b.store("out", sum);
  EXPECT_EQ(b.build().nodes().size(), 100002u);
}

TEST(Builder, KeepsNumberedStores) {
  Builder b("pair");
  b.store("sum", b.acc(0) + b.acc(1), {.dtype = DType::F32, .accumulate = true});
  const Program program = b.build();
  EXPECT_EQ(program.accumulators(), 2);
  EXPECT_EQ(program.operand(0).role, Role::Accumulate);
  EXPECT_EQ(program.operand(0).dtype, DType::F32);
}

TEST(Program, ColumnGranuleCoversHeadsSpansAndPeriods) {
  Builder b("granule");
  const Value z = span_sum(b.acc(), 48) * b.load_row("gamma", {.period = 32});
  const auto [first, second] = split(z, kHalves);
  b.store("out", join(first * b.load_row("cos", {.period = 16, .pairing = kHalves}), second));
  EXPECT_EQ(b.build().column_granule(), 192);  // lcm(48, 32, 64); 16 entries of a half-width head are 32 columns
}

TEST(Program, ColumnGranuleOfPartialHeads) {
  const Pairing partial{Pairing::Kind::Interleaved, 80, 32};  // 16 pairs a head
  Builder b("partial");
  const Value z = b.acc();
  const auto [first, second] = split(z, partial);
  b.store("out", join(first * b.load_row("f", {.period = 32, .pairing = partial}), second, z));
  EXPECT_EQ(b.build().column_granule(), 160);  // 32 entries are two heads
}

TEST(Program, WithOperandDtypesFixesThem) {
  const DType dtypes[] = {DType::BF16, DType::F32};
  Builder b("dtypes");
  b.store("out", b.load_tile("x"));
  const Program program = with_operand_dtypes(b.build(), dtypes);
  EXPECT_EQ(program.operand(0).dtype, DType::BF16);
  EXPECT_EQ(program.operand(1).dtype, DType::F32);
}

}  // namespace
}  // namespace coda
