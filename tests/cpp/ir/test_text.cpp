// Program text: what is printed, and that it reads back as the same program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "coda/build.h"
#include "support/random_program.h"
#include "support/same_program.h"

namespace coda {
namespace {

using testing_support::random_programs;
using testing_support::same_program;

// Every node kind and every way to declare an operand.
Program everything() {
  Builder b("everything");
  const Pairing partial{Pairing::Kind::Halves, 96, 64}, whole{Pairing::Kind::Interleaved, 64, 64};
  const Value x = (b.acc() + b.acc(1)) * b.load_row("gamma", {.period = 96, .dtype = DType::BF16});
  const Value r = rsqrt(b.load_partials("sum_sq") / 576.0 + 1e-6).named("r");
  const Value most = b.load_partials("most", Reduction::Max, Axis::Col);
  const auto [first, second] = split(x * r, partial);
  const Value angle = b.load_col("positions", {.dtype = DType::I32}) * b.col_index(32, partial);
  const Value rest = b.load_tile("rest") * b.load_scalar("alpha");
  const Value z = join(first * cos(angle), second * b.load_tile("sin", {.period = 32, .pairing = partial}), rest);
  const auto [even, odd] = split(z, whole);
  const Value out = join(odd, even) + b.row_index() + most + b.col_index();
  b.store("out", round_to(span_sum(out, 64), DType::BF16));
  b.store("half", even, {.dtype = DType::F16});
  b.store("dw", z.named("z"), {.dtype = DType::F32, .accumulate = true});
  b.store("lse", reduce_row(z, Reduction::LogSumExp, 64), {.dtype = DType::F32});
  b.store("bias_grad", reduce_col(z, Reduction::Sum, 128));
  b.store("target", select_col(z, b.load_col("targets", {.dtype = DType::I64}), -100));
  b.store("first", select_col(z, b.constant(0) * r));
  return b.build();
}

constexpr char kEverything[] = R"(program everything {
  in gamma: row period 96 bf16
  in sum_sq: col partials(sum, row)
  in most: row partials(max, col)
  in positions: col i32
  in rest: tile
  in alpha: scalar
  in sin: tile halves(96, 64) period 32
  out out: tile
  out half: tile interleaved(64, 64) f16
  accumulate dw: tile f32
  out lse: col f32 partials(lse, row, 64)
  out bias_grad: row partials(sum, col, 128)
  in targets: col i64
  out target: col
  out first: col

  v0 = acc(0)
  v1 = acc(1)
  v2 = add(v0, v1)
  v3 = load(gamma)
  v4 = mul(v2, v3)
  v5 = load(sum_sq)
  v6 = const(576)
  v7 = div(v5, v6)
  v8 = const(1e-06)
  v9 = add(v7, v8)
  r = rsqrt(v9)
  v11 = load(most)
  v12 = mul(v4, r)
  v13 = split(v12, 0, halves(96, 64))
  v14 = split(v12, 1, halves(96, 64))
  v15 = load(positions)
  v16 = index(row, period 32, halves(96, 64))
  v17 = mul(v15, v16)
  v18 = load(rest)
  v19 = load(alpha)
  v20 = mul(v18, v19)
  v21 = cos(v17)
  v22 = mul(v13, v21)
  v23 = load(sin)
  v24 = mul(v14, v23)
  z = join(v22, v24, v20, halves(96, 64))
  v26 = split(z, 0, interleaved(64, 64))
  v27 = split(z, 1, interleaved(64, 64))
  v28 = join(v27, v26, interleaved(64, 64))
  v29 = index(col)
  v30 = add(v28, v29)
  v31 = add(v30, v11)
  v32 = index(row)
  v33 = add(v31, v32)
  v34 = span_sum(v33, 64)
  v35 = round(v34, bf16)
  store(out, v35)
  store(half, v26)
  store(dw, z)
  v39 = reduce(z, lse, row, 64)
  store(lse, v39)
  v41 = reduce(z, sum, col, 128)
  store(bias_grad, v41)
  v43 = load(targets)
  v44 = select_col(z, v43, ignored -100)
  store(target, v44)
  v46 = const(0)
  v47 = mul(v46, r)
  v48 = select_col(z, v47)
  store(first, v48)
}
)";

// The order in which a call's arguments make nodes is the compiler's: this program is compared after a round trip.
TEST(Text, PrintsEveryKind) {
  EXPECT_EQ(to_text(parse_program(kEverything)), kEverything);
  EXPECT_TRUE(same_program(parse_program(to_text(everything())), everything()));
}

TEST(Text, ConstantsPrintTheShortestDigitsThatReadBack) {
  const auto text_of = [](double value) {
    Program::Data data{"c", {}, {}};
    data.nodes.push_back({.kind = NodeKind::Const, .value = value});
    const std::string text = to_text(Program(data));
    const std::size_t begin = text.find("const(") + 6;
    return text.substr(begin, text.find(')') - begin);
  };
  EXPECT_EQ(text_of(0.1), "0.1");
  EXPECT_EQ(text_of(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(text_of(-0.0), "-0");
  EXPECT_EQ(text_of(1e-6), "1e-06");
  EXPECT_EQ(text_of(5e-324), "5e-324");
  EXPECT_EQ(text_of(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
  EXPECT_EQ(text_of(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(text_of(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(text_of(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(Text, OperandsAreOptional) {
  Program::Data data{"nothing", {}, {}};
  EXPECT_EQ(to_text(Program(data)), "program nothing {\n}\n");
  EXPECT_TRUE(same_program(parse_program("program nothing {\n}\n"), Program(data)));
}

RC_GTEST_PROP(Text, RoundTripIsExact, ()) {
  const Program program = *random_programs({.tame = false});
  const std::string text = to_text(program);
  const Program again = parse_program(text);
  RC_ASSERT(same_program(again, program));
  RC_ASSERT(to_text(again) == text);
}

RC_GTEST_PROP(Text, ConstantsKeepEveryBit, (std::uint64_t bits)) {
  const double value = std::bit_cast<double>(bits);
  Program::Data data{"c", {}, {}};
  data.nodes.push_back({.kind = NodeKind::Const, .value = value});
  RC_ASSERT(same_program(parse_program(to_text(Program(data))), Program(data)));
}

}  // namespace
}  // namespace coda
