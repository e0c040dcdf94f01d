#include "coda/activations.h"

#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "core/check.h"

namespace coda {
namespace {

// The known names, for the message that refuses another.
template <class Row>
std::string known_names(std::span<const Row> rows) {
  std::string names;
  for (const Row& row : rows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

template <class Row>
const Row& find_row(std::string_view kind, std::span<const Row> rows, std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return row;
  throw ValueError(concat(kind, ": '", name, "' is not known, expected one of ", known_names(rows)));
}

constexpr std::array kActivations{
    Activation{"silu", silu},           Activation{"gelu", gelu},
    Activation{"gelu_tanh", gelu_tanh}, Activation{"quick_gelu", quick_gelu},
    Activation{"relu", relu},           Activation{"relu_squared", relu_squared},
    Activation{"sigmoid", sigmoid},
};

constexpr std::array kGates{
    Gate{"swiglu", swiglu},
    Gate{"geglu", geglu},
    Gate{"geglu_tanh", geglu_tanh},
    Gate{"reglu", reglu},
    Gate{"glu", glu},
    Gate{"clamped_swiglu", [](const Value& gate, const Value& up) { return clamped_swiglu(gate, up); }},
};

}  // namespace

Value silu(const Value& x) { return x * sigmoid(x).named("sig"); }

Value gelu(const Value& x) {
  const Value cdf = (0.5 * (1.0 + erf(x * (1 / std::numbers::sqrt2)))).named("cdf");
  return x * cdf;
}

Value gelu_tanh(const Value& x) {
  const Value inner = std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * (x * square(x)));
  const Value cdf = (0.5 * (1.0 + tanh(inner))).named("cdf");
  return x * cdf;
}

Value quick_gelu(const Value& x) { return x * sigmoid(1.702 * x).named("sig"); }
Value relu(const Value& x) { return map(Op::Relu, {x}); }
Value relu_squared(const Value& x) { return square(relu(x)); }
Value sigmoid(const Value& x) { return map(Op::Sigmoid, {x}); }

Value swiglu(const Value& gate, const Value& up) { return silu(gate).named("act") * up; }
Value geglu(const Value& gate, const Value& up) { return gelu(gate).named("act") * up; }
Value geglu_tanh(const Value& gate, const Value& up) { return gelu_tanh(gate).named("act") * up; }
Value reglu(const Value& gate, const Value& up) { return relu(gate).named("act") * up; }
Value glu(const Value& gate, const Value& up) { return sigmoid(gate).named("act") * up; }

Value clamped_swiglu(const Value& gate, const Value& up, const ClampedSwiglu& options) {
  const auto [alpha, beta, limit] = options;
  REQUIRE(ValueError, std::isfinite(alpha), "clamped_swiglu: alpha is ", alpha, ", expected a finite number");
  REQUIRE(ValueError, std::isfinite(beta), "clamped_swiglu: beta is ", beta, ", expected a finite number");
  REQUIRE(ValueError, limit > 0, "clamped_swiglu: limit is ", limit,
          ", expected a number above 0, or inf for no clamping");
  const Value clamped_gate = min(gate, constant_like(gate, limit)).named("clamped_gate");
  const Value low = constant_like(up, -limit), high = constant_like(up, limit);
  const Value clamped_up = clamp(up, low, high).named("clamped_up");
  const Value act = (clamped_gate * sigmoid(alpha * clamped_gate).named("sig")).named("act");
  return act * (clamped_up + beta);
}

std::span<const Activation> activations() { return kActivations; }
std::span<const Gate> gates() { return kGates; }

const Activation& find_activation(std::string_view name) { return find_row("activation", activations(), name); }
const Gate& find_gate(std::string_view name) { return find_row("gate", gates(), name); }

}  // namespace coda
