// Every row of the op table: its derivative against central differences, what it does with NaN, its words.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "coda/build.h"
#include "support/differences.h"
#include "support/scalar_program.h"

namespace coda {
namespace {

using testing_support::compare_with_differences;
using testing_support::evaluate;
using testing_support::fresh_seed;
using testing_support::load_arguments;
using testing_support::RealFunction;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kPoints = 500;
constexpr double kCotangent = 1.75;

// One program for each argument: its cotangent by the row's vjp, from the arguments and, as last input, the result's
// cotangent. An argument without a derivative stores 0.
std::vector<Program> vjp_programs(const OpRow& row) {
  std::vector<Program> programs;
  for (int which = 0; which < row.arity; ++which) {
    Builder b("vjp");
    const std::vector<Value> args = load_arguments(b, static_cast<std::size_t>(row.arity));
    const Value cotangent = b.load_scalar("cotangent");
    const std::vector<Value> parts = row.vjp(args, map(row.op, args), cotangent);
    if (parts.size() != args.size()) return {};
    const Value& part = parts[static_cast<std::size_t>(which)];
    b.store("out", part ? part : b.constant(0));
    programs.push_back(b.build());
  }
  return programs;
}

// What is wrong with the row's vjp, or nothing.
std::optional<std::string> check_vjp(const OpRow& row, std::uint64_t seed) {
  if (row.vjp == nullptr) return "no vjp";
  const std::vector<Program> programs = vjp_programs(row);
  if (programs.empty()) return "vjp gives a wrong number of cotangents";
  std::vector<RealFunction> derivatives;
  for (const Program& program : programs)
    derivatives.push_back([&program](std::vector<double> args) {
      args.push_back(kCotangent);
      return evaluate(program, args)[0];
    });
  const auto value = [&row](const std::vector<double>& args) { return kCotangent * row.reference(args.data()); };
  return compare_with_differences(value, derivatives, {row.domain, row.domain + row.arity}, kPoints, seed);
}

double value_of(Op op, const std::vector<double>& args) { return op_row(op).reference(args.data()); }

std::vector<double> cotangents_of(Op op, std::vector<double> args, double cotangent = 1) {
  std::vector<double> result;
  args.push_back(cotangent);
  for (const Program& program : vjp_programs(op_row(op))) result.push_back(evaluate(program, args)[0]);
  return result;
}

TEST(OpTable, HasOneRowForEachOpInOrder) {
  ASSERT_EQ(op_table().size(), static_cast<std::size_t>(kOpCount));
  std::set<std::string_view> names;
  for (int i = 0; i < kOpCount; ++i) {
    const OpRow& row = op_row(static_cast<Op>(i));
    EXPECT_EQ(static_cast<int>(row.op), i);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(op_from_name(row.name), row.op);
    EXPECT_FALSE(row.formula.empty()) << row.name;
  }
  EXPECT_FALSE(op_from_name("no_such_op"));
  EXPECT_FALSE(op_from_name(""));
}

TEST(OpTable, DomainsAreIntervalsWithARange) {
  for (const OpRow& row : op_table())
    for (int i = 0; i < row.arity; ++i) EXPECT_LT(row.domain[i].low, row.domain[i].high) << row.name;
}

TEST(OpTable, DerivativesAgreeWithDifferences) {
  const std::uint64_t seed = fresh_seed();
  for (const OpRow& row : op_table()) EXPECT_EQ(check_vjp(row, seed), std::nullopt) << row.name;
}

// The test above can fail: it refuses a row whose derivative was deleted, and one with the sign reversed.
TEST(OpTable, AMissingOrWrongDerivativeIsFound) {
  for (OpRow row : op_table()) {
    const OpRow& original = op_row(row.op);
    const bool flat = row.op == Op::Eq || row.op == Op::Lt || row.op == Op::Le;
    row.vjp = nullptr;
    EXPECT_NE(check_vjp(row, 1), std::nullopt) << row.name;
    row.vjp = [](std::span<const Value>, const Value&, const Value&) { return std::vector<Value>{}; };
    EXPECT_NE(check_vjp(row, 1), std::nullopt) << row.name;
    row.vjp = [](std::span<const Value> args, const Value&, const Value&) { return std::vector<Value>(args.size()); };
    EXPECT_EQ(check_vjp(row, 1) == std::nullopt, flat) << row.name;
    row.vjp = [](std::span<const Value> args, const Value&, const Value& g) {
      return std::vector<Value>(args.size(), -2.0 * g);
    };
    EXPECT_NE(check_vjp(row, 1), std::nullopt) << row.name;
    row.vjp = original.vjp;
    EXPECT_EQ(check_vjp(row, 1), std::nullopt) << row.name;
  }
}

// What each row makes of one NaN among ordinary arguments: "N" stays NaN, "0", "b" and "c" as named, by position.
TEST(OpTable, NaNBehaviourOfEveryRow) {
  const std::map<std::string_view, std::string> unusual{{"eq", "00"}, {"lt", "00"}, {"le", "00"}, {"select", "bNa"}};
  for (const OpRow& row : op_table()) {
    const auto found = unusual.find(row.name);
    const std::string expected =
        found == unusual.end() ? std::string(static_cast<std::size_t>(row.arity), 'N') : found->second;
    for (int i = 0; i < row.arity; ++i) {
      double args[3] = {1.5, 0.25, 2.5};
      args[i] = kNaN;
      const double got = row.reference(args);
      switch (expected[static_cast<std::size_t>(i)]) {
        case 'N': EXPECT_TRUE(std::isnan(got)) << row.name << " argument " << i << " gives " << got; break;
        case '0': EXPECT_EQ(got, 0) << row.name << " argument " << i; break;
        case 'b': EXPECT_EQ(got, 0.25) << row.name << ": a NaN condition counts as true"; break;
        default: EXPECT_EQ(got, 0.25) << row.name << ": the branch not taken does not matter"; break;
      }
    }
  }
}

TEST(OpTable, MinMaxClampReluKeepNaNFromEverySide) {
  for (const double other : {-kInf, -1.0, 0.0, 1.0, kInf, kNaN}) {
    for (const Op op : {Op::Min, Op::Max}) {
      EXPECT_TRUE(std::isnan(value_of(op, {kNaN, other}))) << other;
      EXPECT_TRUE(std::isnan(value_of(op, {other, kNaN}))) << other;
    }
    EXPECT_TRUE(std::isnan(value_of(Op::Clamp, {kNaN, other, 3}))) << other;
    EXPECT_TRUE(std::isnan(value_of(Op::Clamp, {other, kNaN, 3}))) << other;
    EXPECT_TRUE(std::isnan(value_of(Op::Clamp, {other, 3, kNaN}))) << other;
  }
  EXPECT_TRUE(std::isnan(value_of(Op::Relu, {kNaN})));
}

TEST(OpTable, InfinitiesFollowIeee) {
  EXPECT_EQ(value_of(Op::Exp, {-kInf}), 0);
  EXPECT_EQ(value_of(Op::Exp, {kInf}), kInf);
  EXPECT_EQ(value_of(Op::Log, {0}), -kInf);
  EXPECT_EQ(value_of(Op::Rcp, {0}), kInf);
  EXPECT_EQ(value_of(Op::Rsqrt, {0}), kInf);
  EXPECT_EQ(value_of(Op::Sigmoid, {-kInf}), 0);
  EXPECT_EQ(value_of(Op::Sigmoid, {kInf}), 1);
  EXPECT_EQ(value_of(Op::Tanh, {-kInf}), -1);
  EXPECT_EQ(value_of(Op::Clamp, {kInf, -1, 2}), 2);
  EXPECT_EQ(value_of(Op::Relu, {-kInf}), 0);
  EXPECT_TRUE(std::isnan(value_of(Op::Log, {-1})));
  EXPECT_TRUE(std::isnan(value_of(Op::Sub, {kInf, kInf})));
}

TEST(OpTable, ValuesAtKnownPoints) {
  EXPECT_EQ(value_of(Op::Sub, {5, 3}), 2);
  EXPECT_EQ(value_of(Op::Div, {3, 4}), 0.75);
  EXPECT_EQ(value_of(Op::Exp2, {-3}), 0.125);
  EXPECT_EQ(value_of(Op::Rsqrt, {16}), 0.25);
  EXPECT_EQ(value_of(Op::Sigmoid, {0}), 0.5);
  EXPECT_EQ(value_of(Op::Min, {2, -1}), -1);
  EXPECT_EQ(value_of(Op::Max, {2, -1}), 2);
  EXPECT_EQ(value_of(Op::Eq, {2, 2}), 1);
  EXPECT_EQ(value_of(Op::Lt, {2, 2}), 0);
  EXPECT_EQ(value_of(Op::Le, {2, 2}), 1);
  EXPECT_EQ(value_of(Op::Select, {0, 3, 4}), 4);
  EXPECT_EQ(value_of(Op::Select, {-1, 3, 4}), 3);
  EXPECT_EQ(value_of(Op::Clamp, {5, -1, 2}), 2);
  EXPECT_EQ(value_of(Op::Clamp, {0, 2, -1}), -1) << "bounds that cross give the upper one";
  EXPECT_NEAR(value_of(Op::Erf, {0.5}), 0.5204998778130465, 1e-15);
}

TEST(OpTable, SubgradientsAtTies) {
  using Numbers = std::vector<double>;
  EXPECT_EQ(cotangents_of(Op::Abs, {0}), Numbers{0});
  EXPECT_EQ(cotangents_of(Op::Relu, {0}), Numbers{0});
  EXPECT_EQ(cotangents_of(Op::Min, {2, 2}), (Numbers{1, 0}));
  EXPECT_EQ(cotangents_of(Op::Max, {2, 2}), (Numbers{1, 0}));
  EXPECT_EQ(cotangents_of(Op::Clamp, {1, 1, 2}), (Numbers{1, 0, 0}));
  EXPECT_EQ(cotangents_of(Op::Clamp, {2, 1, 2}), (Numbers{1, 0, 0}));
  EXPECT_EQ(cotangents_of(Op::Clamp, {0, 1, 2}), (Numbers{0, 1, 0}));
  EXPECT_EQ(cotangents_of(Op::Clamp, {3, 1, 2}), (Numbers{0, 0, 1}));
  EXPECT_EQ(cotangents_of(Op::Clamp, {0, 2, 1}), (Numbers{0, 0, 1}));
  EXPECT_EQ(cotangents_of(Op::Select, {0, 5, 6}), (Numbers{0, 0, 1}));
  EXPECT_EQ(cotangents_of(Op::Select, {kNaN, 5, 6}), (Numbers{0, 1, 0}));
}

// A NaN argument never gets a derivative of 0 from an op that keeps it: the cotangent passes, and is NaN downstream.
TEST(OpTable, ANaNArgumentKeepsItsCotangent) {
  EXPECT_TRUE(std::isnan(cotangents_of(Op::Abs, {kNaN})[0]));
  EXPECT_EQ(cotangents_of(Op::Relu, {kNaN})[0], 1);
  EXPECT_EQ(cotangents_of(Op::Min, {kNaN, 1}), (std::vector<double>{1, 1}));
  EXPECT_EQ(cotangents_of(Op::Max, {1, kNaN}), (std::vector<double>{1, 1}));
  EXPECT_EQ(cotangents_of(Op::Clamp, {kNaN, 0, 1})[0], 1);
}

}  // namespace
}  // namespace coda
