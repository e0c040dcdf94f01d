// simplify, rule by rule as text before and after, and as a whole: by meaning, on random programs.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "coda/build.h"
#include "support/evaluate.h"
#include "support/random_program.h"
#include "support/same_program.h"

namespace coda {
namespace {

using testing_support::evaluate;
using testing_support::Grids;
using testing_support::random_inputs;
using testing_support::random_programs;
using testing_support::RandomProgramOptions;
using testing_support::same_program;

// A program that stores values of x, y (tiles), c, d (cols) and s (a scalar) to out; statements as text, `out` last.
Program with_inputs(const std::string& statements, const std::string& shape = "tile") {
  std::string text =
      "program p {\n  in x: tile\n  in y: tile\n  in c: col\n  in d: col\n  in s: scalar\n  out out: " + shape +
      "\n\n  x = load(x)\n  y = load(y)\n  c = load(c)\n  d = load(d)\n  s = load(s)\n";
  return parse_program(text + statements + "\n  store(out, out)\n}\n");
}

// Statements between the operands' loads and the store, in simplified form.
std::string statements_of(const Program& program) {
  std::string text;
  std::istringstream lines(to_text(program));
  for (std::string line; std::getline(lines, line);)
    if (line.find(" = ") != std::string::npos && line.find("load(") == std::string::npos)
      text += (text.empty() ? "" : "; ") + line.substr(2);
  return text;
}

struct Rewrite {
  const char* before;
  const char* after;
};

void expect_rewrites(const std::vector<Rewrite>& rewrites, const std::string& shape = "tile") {
  for (const auto& [before, after] : rewrites) {
    SCOPED_TRACE(before);
    std::string statements = before;
    std::replace(statements.begin(), statements.end(), ';', '\n');
    EXPECT_EQ(statements_of(simplify(with_inputs(statements, shape))), after);
  }
}

TEST(Simplify, FoldsConstants) {
  expect_rewrites({
      {"a = const(2); b = const(3); t = mul(a, b); out = add(x, t)", "t = const(6); out = add(x, t)"},
      {"a = const(0.1); b = round(a, bf16); out = add(x, b)", "b = const(0.10009765625); out = add(x, b)"},
      {"a = const(-1); b = sqrt(a); out = add(x, b)", "b = const(nan); out = add(x, b)"},
  });
}

TEST(Simplify, DropsNeutralElements) {
  expect_rewrites({
      {"a = const(0); t = add(x, a); u = sub(t, a); out = neg(u)", "out = neg(x)"},
      {"a = const(1); t = mul(a, x); u = div(t, a); out = neg(u)", "out = neg(x)"},
      {"a = const(0); t = add(a, x); out = neg(t)", "out = neg(x)"},
      {"a = const(0); out = sub(a, x)", "out = neg(x)"},
      {"a = const(-1); out = mul(a, x)", "out = neg(x)"},
      {"a = const(-1); out = div(x, a)", "out = neg(x)"},
      {"a = const(1); out = div(a, x)", "out = rcp(x)"},
  });
}

TEST(Simplify, KeepsWhatCouldBeNaN) {
  expect_rewrites({
      {"a = const(0); out = mul(x, a)", "a = const(0); out = mul(x, a)"},
      {"out = sub(x, x)", "out = sub(x, x)"},
      {"out = div(x, x)", "out = div(x, x)"},
      {"t = sqrt(x); out = square(t)", "t = sqrt(x); out = square(t)"},
      {"a = const(inf); t = mul(x, a); out = div(t, a)", "a = const(inf); t = mul(x, a); out = div(t, a)"},
  });
}

TEST(Simplify, DividesByPowersOfTwoAlone) {
  expect_rewrites({
      {"a = const(8); out = div(x, a)", "v1 = const(0.125); out = mul(x, v1)"},
      {"a = const(3); out = div(x, a)", "a = const(3); out = div(x, a)"},
      {"a = const(1e-320); out = div(x, a)", "a = const(1e-320); out = div(x, a)"},
      {"a = const(8); b = div(x, a); out = add(b, a)", "a = const(8); b = div(x, a); out = add(b, a)"},
  });
}

TEST(Simplify, MergesConstantsOfProductsWhereThatIsExact) {
  expect_rewrites({
      {"a = const(2); b = const(0.3); t = mul(b, x); out = mul(t, a)", "v1 = const(0.6); out = mul(x, v1)"},
      {"a = const(3); b = const(0.3); t = mul(b, x); out = mul(t, a)",
       "a = const(3); b = const(0.3); t = mul(b, x); out = mul(t, a)"},
      {"a = const(1e-30); b = const(9.094947017729282e-13); t = mul(b, x); out = mul(t, a)",
       "a = const(1e-30); b = const(9.094947017729282e-13); t = mul(b, x); out = mul(t, a)"},
      {"a = const(2); b = const(3); t = div(x, b); out = mul(a, t)", "v1 = const(1.5); out = div(x, v1)"},
      {"a = const(2); b = const(3); t = div(b, x); out = mul(a, t)", "v1 = const(6); out = div(v1, x)"},
      {"a = const(-0.5); b = const(3); t = mul(x, a); out = div(t, b)", "v1 = const(-6); out = div(x, v1)"},
      {"a = const(3); b = const(5); t = mul(x, a); out = div(t, b)",
       "a = const(3); b = const(5); t = mul(x, a); out = div(t, b)"},
      {"a = const(2); b = const(0.3); t = mul(b, x); u = span_sum(t, 8); out = mul(a, u)",
       "v1 = const(0.6); v2 = mul(x, v1); out = span_sum(v2, 8)"},
      {"a = const(2); b = const(3); t = div(x, b); u = span_sum(t, 8); out = mul(u, a)",
       "v1 = const(1.5); v2 = div(x, v1); out = span_sum(v2, 8)"},
  });
}

TEST(Simplify, MovesSigns) {
  expect_rewrites({
      {"t = neg(x); u = neg(t); out = exp(u)", "out = exp(x)"},
      {"t = neg(y); out = add(x, t)", "out = sub(x, y)"},
      {"t = neg(y); out = add(t, x)", "out = sub(x, y)"},
      {"t = neg(y); out = sub(x, t)", "out = add(x, y)"},
      {"t = neg(x); out = sub(t, y)", "v2 = add(x, y); out = neg(v2)"},
      {"t = sub(x, y); out = neg(t)", "out = sub(y, x)"},
      {"t = neg(x); u = neg(y); out = mul(t, u)", "out = mul(x, y)"},
      {"t = neg(x); u = mul(t, y); out = add(x, u)", "v2 = mul(x, y); out = sub(x, v2)"},
      {"t = neg(x); u = div(t, y); v = mul(u, c); out = sub(x, v)",
       "v3 = div(x, y); v4 = mul(v3, c); out = add(x, v4)"},
      {"t = neg(x); a = const(3); out = mul(t, a)", "v1 = const(-3); out = mul(x, v1)"},
      {"t = neg(x); out = square(t)", "out = square(x)"},
      {"t = neg(x); u = mul(t, y); out = add(t, u)", "t = neg(x); v3 = mul(x, y); out = sub(t, v3)"},
      {"e = exp(y); t = neg(x); u = mul(t, e); out = add(y, u)", "e = exp(y); v3 = mul(x, e); out = sub(y, v3)"},
      {"e = exp(y); t = neg(x); u = div(t, e); out = sub(y, u)", "e = exp(y); v3 = div(x, e); out = add(y, v3)"},
  });
}

TEST(Simplify, FindsPowers) {
  expect_rewrites({
      {"out = mul(x, x)", "out = square(x)"},
      {"t = sqrt(x); out = rcp(t)", "out = rsqrt(x)"},
      {"t = rsqrt(x); out = rcp(t)", "out = sqrt(x)"},
      {"t = sqrt(y); out = div(x, t)", "v2 = rsqrt(y); out = mul(x, v2)"},
  });
}

TEST(Simplify, DecidesSelects) {
  expect_rewrites({
      {"a = const(2); t = select(a, x, y); out = neg(t)", "out = neg(x)"},
      {"a = const(0); t = select(a, x, y); out = neg(t)", "out = neg(y)"},
      {"a = const(nan); t = select(a, x, y); out = neg(t)", "out = neg(x)"},
      {"t = select(c, x, x); out = neg(t)", "out = neg(x)"},
      {"a = const(2); out = select(a, c, y)", "a = const(2); out = select(a, c, y)"},  // a col is no tile
  });
}

TEST(Simplify, CancelsSplitAndJoin) {
  expect_rewrites({
      {"a = split(x, 0, halves(8, 8)); b = split(x, 1, halves(8, 8)); t = join(a, b, halves(8, 8)); out = neg(t)",
       "out = neg(x)"},
      {"a = split(x, 0, halves(8, 4)); b = split(x, 1, halves(8, 4)); t = join(a, b, x, halves(8, 4)); out = neg(t)",
       "out = neg(x)"},
      {"a = split(x, 0, halves(8, 4)); b = split(x, 1, halves(8, 4)); t = join(b, a, y, halves(8, 4)); "
       "u = split(t, 1, halves(8, 4)); v = split(y, 0, halves(8, 4)); out = join(u, v, t, halves(8, 4))",
       "a = split(x, 0, halves(8, 4)); v = split(y, 0, halves(8, 4)); out = join(a, v, y, halves(8, 4))"},
      {"a = split(x, 0, halves(8, 8)); b = split(x, 1, halves(8, 8)); t = join(a, b, halves(8, 8)); "
       "out = span_sum(t, 8)",
       "out = span_sum(x, 8)"},
  });
  // another pairing, another order, another rest: nothing cancels
  for (const char* text :
       {"a = split(x, 0, halves(8, 4)); out = join(a, a, x, halves(8, 4))",
        "a = split(x, 0, halves(8, 4)); b = split(x, 1, halves(8, 4)); out = join(a, b, y, halves(8, 4))",
        "a = split(x, 0, interleaved(8, 8)); b = split(x, 1, interleaved(8, 8)); "
        "t = join(b, a, interleaved(8, 8)); u = split(t, 0, halves(8, 8)); "
        "v = split(t, 1, halves(8, 8)); out = join(v, u, halves(8, 8))"})
    expect_rewrites({{text, text}});
}

TEST(Simplify, DropsIdleRounds) {
  const auto rounded = [](const std::string& dtype, const std::string& rounds) {
    return simplify(parse_program("program p {\n in x: tile " + dtype + "\n out out: tile\n x = load(x)\n" + rounds +
                                  "\n store(out, t)\n}"));
  };
  EXPECT_EQ(rounded("bf16", "t = round(x, bf16)").nodes().size(), 2u);
  EXPECT_EQ(rounded("bf16", "t = round(x, f32)").nodes().size(), 2u);
  EXPECT_EQ(rounded("f32", "t = round(x, bf16)").nodes().size(), 3u);
  EXPECT_EQ(rounded("f16", "t = round(x, bf16)").nodes().size(), 3u);
  EXPECT_EQ(rounded("", "t = round(x, bf16)").nodes().size(), 3u);
  EXPECT_EQ(rounded("f32", "u = round(x, bf16)\n t = round(u, bf16)").nodes().size(), 3u);
  EXPECT_EQ(rounded("f32", "u = round(x, bf16)\n t = round(u, f16)").nodes().size(), 4u);
}

TEST(Simplify, CancelsFactorsOfRowsAndScalars) {
  expect_rewrites({
      {"t = mul(x, c); u = div(t, c); out = neg(u)", "out = neg(x)"},
      {"t = div(x, c); u = mul(t, c); out = neg(u)", "out = neg(x)"},
      {"r = rcp(c); t = mul(x, c); u = mul(t, r); out = neg(u)", "out = neg(x)"},
      {"t = div(x, s); u = mul(s, t); out = neg(u)", "out = neg(x)"},
      {"t = div(x, c); u = mul(y, c); out = mul(t, u)", "out = mul(x, y)"},
      {"t = mul(x, c); u = mul(y, c); out = div(t, u)", "out = div(x, y)"},
      {"t = mul(x, c); u = mul(t, d); v = div(u, c); w = div(v, d); out = neg(w)", "out = neg(x)"},
      {"k = mul(c, c); t = mul(x, k); out = div(t, c)", "out = mul(x, c)"},
      {"t = div(x, y); out = mul(t, y)", "t = div(x, y); out = mul(t, y)"},  // y is a tile
  });
}

TEST(Simplify, MergesCommonSubexpressionsAndKeepsNames) {
  expect_rewrites({
      {"t = add(x, y); named = add(y, x); u = exp(t); v = exp(named); out = mul(u, v)",
       "t = add(x, y); u = exp(t); out = square(u)"},
      {"v5 = add(x, y); sum = add(y, x); out = sub(v5, sum)", "sum = add(x, y); out = sub(sum, sum)"},
      {"v5 = sub(x, y); other = sub(y, x); out = mul(v5, other)",
       "v2 = sub(x, y); other = sub(y, x); out = mul(v2, other)"},
  });
}

constexpr char kDifferInOneAttribute[] = R"(program p {
  in c: col i32
  out r1: col partials(sum, row, 64)
  out r2: col partials(max, row, 64)
  out r3: col partials(sum, row, 128)
  out r4: row partials(sum, col, 64)
  out s1: col
  out s2: col
  out s3: col
  out t: tile
  out h: tile halves(8, 8)
  out k: scalar

  x = acc(0)
  y = acc(1)
  c = load(c)
  a1 = reduce(x, sum, row, 64)
  store(r1, a1)
  a2 = reduce(x, max, row, 64)
  store(r2, a2)
  a3 = reduce(x, sum, row, 128)
  store(r3, a3)
  a4 = reduce(x, sum, col, 64)
  store(r4, a4)
  b1 = select_col(x, c)
  store(s1, b1)
  b2 = select_col(x, c, ignored 0)
  store(s2, b2)
  b3 = select_col(x, c, ignored -1)
  store(s3, b3)
  d1 = round(x, bf16)
  d2 = round(x, f16)
  d3 = span_sum(d1, 8)
  d4 = span_sum(d1, 4)
  d5 = index(row)
  d6 = index(row, period 8)
  d7 = index(col)
  e1 = max(d1, d2)
  e2 = min(e1, d3)
  e3 = max(e2, d4)
  e4 = max(e3, d5)
  e5 = max(e4, d6)
  e6 = max(e5, d7)
  e7 = max(e6, y)
  store(t, e7)
  f1 = split(x, 0, halves(8, 8))
  f2 = split(x, 1, halves(8, 8))
  f3 = index(row, halves(8, 8))
  f4 = max(f1, f2)
  f5 = max(f4, f3)
  store(h, f5)
  zero = const(0)
  minus = const(-0)
  g1 = max(zero, minus)
  store(k, g1)
}
)";

TEST(Simplify, KeepsNodesThatDifferInOneAttribute) {
  // The constants at the end fold, and nothing else.
  const std::string text = kDifferInOneAttribute;
  const std::string simple = to_text(simplify(parse_program(text)));
  EXPECT_EQ(simple.substr(0, simple.find("  g1 =")), text.substr(0, text.find("  zero =")));
}

TEST(Simplify, DropsDeadNodesAndInputs) {
  const Program program = simplify(with_inputs("dead = exp(y)\n  out = mul(x, c)"));
  EXPECT_EQ(to_text(program),
            "program p {\n  in x: tile\n  in c: col\n  out out: tile\n\n  x = load(x)\n  c = load(c)\n"
            "  out = mul(x, c)\n  store(out, out)\n}\n");
}

void require_close(const Grids& before, const Grids& after, const std::string& text) {
  RC_ASSERT(before.size() == after.size());
  for (const auto& [name, expected] : before) {
    const auto& got = after.at(name);
    RC_ASSERT(got.data.size() == expected.data.size());
    for (std::size_t i = 0; i < expected.data.size(); ++i) {
      const double a = expected.data[i], b = got.data[i];
      if (std::isnan(a) && std::isnan(b)) continue;
      if (!(a == b || std::abs(a - b) <= 1e-9 * (1 + std::abs(a))))
        RC_FAIL(name + " was " + std::to_string(a) + ", is " + std::to_string(b) + " in\n" + text);
    }
  }
}

RC_GTEST_PROP(Simplify, KeepsTheMeaning, (std::uint64_t seed)) {
  const Program program = *random_programs();
  const Program simple = simplify(program);
  const std::int64_t m = 5, n = 80;
  const Grids inputs = random_inputs(program, m, n, seed);
  require_close(evaluate(program, inputs, m, n), evaluate(simple, inputs, m, n), to_text(simple));
}

RC_GTEST_PROP(Simplify, IsIdempotentAndNeverLengthens, (bool tame)) {
  const Program program = *random_programs({.tame = tame});
  const Program simple = simplify(program);
  RC_ASSERT(simple.nodes().size() <= program.nodes().size());
  RC_ASSERT(same_program(simplify(simple), simple));
  RC_TAG(simple.nodes().size() < program.nodes().size() ? "shorter" : "as long");
}

RC_GTEST_PROP(Simplify, KeepsOutputsAndTheirOrder, ()) {
  const auto outputs = [](const Program& program) {
    std::vector<Operand> result;
    for (const Operand& operand : program.operands())
      if (operand.role != Role::Input) result.push_back(operand);
    return result;
  };
  const Program program = *random_programs({.tame = false});
  RC_ASSERT(outputs(simplify(program)) == outputs(program));
}

}  // namespace
}  // namespace coda
