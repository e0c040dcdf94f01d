// Every activation and gate: its value against a closed formula in double, its derivative through the op table's rows
// against differences.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "coda/activations.h"
#include "support/differences.h"
#include "support/scalar_program.h"

namespace coda {
namespace {

using testing_support::compare_with_differences;
using testing_support::derivative_program;
using testing_support::evaluate;
using testing_support::fresh_seed;
using testing_support::RealFunction;
using testing_support::ScalarFunction;
using testing_support::value_program;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kPoints = 500;

// Formulas other than the library's: σ as a tanh, Φ by erfc.
double sigma(double x) { return 0.5 + 0.5 * std::tanh(x / 2); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double gelu_tanh_formula(double x) {
  return x * sigma(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * std::pow(x, 3)));
}

const std::map<std::string_view, double (*)(double)> kActivationFormulas{
    {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
    {"gelu", [](double x) { return x * normal_cdf(x); }},
    {"gelu_tanh", gelu_tanh_formula},
    {"quick_gelu", [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
    {"relu", [](double x) { return x > 0 ? x : 0; }},
    {"relu_squared", [](double x) { return x > 0 ? x * x : 0; }},
    {"sigmoid", sigma},
};

double clamped_formula(double gate, double up, const ClampedSwiglu& options) {
  const double g = std::fmin(gate, options.limit), u = std::fmax(-options.limit, std::fmin(up, options.limit));
  return g * sigma(options.alpha * g) * (u + options.beta);
}

const std::map<std::string_view, double (*)(double, double)> kGateFormulas{
    {"swiglu", [](double gate, double up) { return gate * sigma(gate) * up; }},
    {"geglu", [](double gate, double up) { return gate * normal_cdf(gate) * up; }},
    {"geglu_tanh", [](double gate, double up) { return gelu_tanh_formula(gate) * up; }},
    {"reglu", [](double gate, double up) { return gate > 0 ? gate * up : 0; }},
    {"glu", [](double gate, double up) { return sigma(gate) * up; }},
    {"clamped_swiglu", [](double gate, double up) { return clamped_formula(gate, up, {1.702, 1, 7}); }},
};

struct Case {
  std::string name;
  std::size_t arity;
  ScalarFunction function;
  RealFunction formula;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Activation& row : activations())
    all.push_back({std::string(row.name), 1, [apply = row.apply](const auto& x) { return apply(x[0]); },
                   [formula = kActivationFormulas.at(row.name)](const auto& x) { return formula(x[0]); }});
  for (const Gate& row : gates())
    all.push_back({std::string(row.name), 2, [apply = row.apply](const auto& x) { return apply(x[0], x[1]); },
                   [formula = kGateFormulas.at(row.name)](const auto& x) { return formula(x[0], x[1]); }});
  const ClampedSwiglu tight{.alpha = 1.5, .beta = 0.5, .limit = 2};  // clamps inside the range drawn
  all.push_back({"clamped_swiglu_tight", 2, [=](const auto& x) { return clamped_swiglu(x[0], x[1], tight); },
                 [=](const auto& x) { return clamped_formula(x[0], x[1], tight); }});
  return all;
}

TEST(Activations, EveryFormulaIsTested) {
  EXPECT_EQ(activations().size(), kActivationFormulas.size());
  EXPECT_EQ(gates().size(), kGateFormulas.size());
}

TEST(Activations, ValuesAgreeWithClosedFormulas) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 4);
  for (const Case& item : cases()) {
    const Program program = value_program(item.arity, item.function);
    for (int i = 0; i < kPoints; ++i) {
      std::vector<double> x(item.arity);
      for (double& entry : x) entry = normal(random);
      const double expected = item.formula(x);
      ASSERT_NEAR(evaluate(program, x)[0], expected, 1e-13 * (1 + std::abs(expected)))
          << item.name << " at " << x[0] << ", " << x.back() << ", seed " << seed;
    }
  }
}

TEST(Activations, DerivativesAgreeWithDifferences) {
  const std::uint64_t seed = fresh_seed();
  for (const Case& item : cases()) {
    const Program program = derivative_program(item.arity, item.function);
    std::vector<RealFunction> derivatives;
    for (std::size_t i = 0; i < item.arity; ++i)
      derivatives.push_back([&program, i](const std::vector<double>& x) { return evaluate(program, x)[i]; });
    const std::vector<Interval> domain(item.arity, Interval{-4, 4});
    EXPECT_EQ(compare_with_differences(item.formula, derivatives, domain, kPoints, seed), std::nullopt) << item.name;
  }
}

TEST(Activations, NaNPassesThroughEveryArgument) {
  for (const Case& item : cases()) {
    const Program program = value_program(item.arity, item.function);
    for (std::size_t i = 0; i < item.arity; ++i) {
      std::vector<double> x(item.arity, 0.5);
      x[i] = kNaN;
      EXPECT_TRUE(std::isnan(evaluate(program, x)[0])) << item.name << " argument " << i;
    }
  }
}

// At the limit itself the whole derivative still passes, as torch.clamp's does: bf16 gates meet the limit exactly.
TEST(Activations, ClampedSwigluPassesTheGradientAtItsLimit) {
  const Program program = derivative_program(
      2, [](const auto& x) { return clamped_swiglu(x[0], x[1], {.alpha = 0, .beta = 1, .limit = 7}); });
  const auto at = [&](double gate, double up) { return evaluate(program, {gate, up}); };
  EXPECT_EQ(at(7, 7), (std::vector<double>{4, 3.5}));
  EXPECT_EQ(at(8, 8), (std::vector<double>{0, 0}));
  EXPECT_EQ(at(-8, -7), (std::vector<double>{-3, -4}));
}

TEST(Activations, ClampedSwigluWithoutLimitIsSwigluOfUpPlusOne) {
  const Program program = value_program(
      2, [](const auto& x) { return clamped_swiglu(x[0], x[1], {.alpha = 1, .beta = 1, .limit = kInf}); });
  EXPECT_NEAR(evaluate(program, {30, 90})[0], 30 * 91 * sigma(30), 1e-9);
}

TEST(Activations, AreFoundByName) {
  for (const Activation& row : activations()) EXPECT_EQ(&find_activation(row.name), &row);
  for (const Gate& row : gates()) EXPECT_EQ(&find_gate(row.name), &row);
}

}  // namespace
}  // namespace coda
