// Activations and gates as functions of Values: one function each; derivatives are derived, never written.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "coda/build.h"

namespace coda {

Value silu(const Value& x);        ///< x·σ(x)
Value gelu(const Value& x);        ///< x·Φ(x), by erf
Value gelu_tanh(const Value& x);   ///< GPT-2's approximation of gelu
Value quick_gelu(const Value& x);  ///< x·σ(1.702·x)
Value relu(const Value& x);
Value relu_squared(const Value& x);  ///< max(x, 0)²
Value sigmoid(const Value& x);

Value swiglu(const Value& gate, const Value& up);  ///< silu(gate)·up
Value geglu(const Value& gate, const Value& up);   ///< gelu(gate)·up
Value geglu_tanh(const Value& gate, const Value& up);
Value reglu(const Value& gate, const Value& up);  ///< relu(gate)·up
Value glu(const Value& gate, const Value& up);    ///< σ(gate)·up

/// gpt-oss's gate: g = min(gate, limit), u = clamp(up, −limit, limit); g·σ(α·g)·(u + β).
struct ClampedSwiglu {
  double alpha = 1.702;
  double beta = 1.0;
  double limit = 7.0;
};
Value clamped_swiglu(const Value& gate, const Value& up, const ClampedSwiglu& options = {});

struct Activation {
  std::string_view name;
  Value (*apply)(const Value& x);
};
struct Gate {
  std::string_view name;
  Value (*apply)(const Value& gate, const Value& up);
};

std::span<const Activation> activations();
std::span<const Gate> gates();

/// Errors: ValueError naming the known ones.
const Activation& find_activation(std::string_view name);
const Gate& find_gate(std::string_view name);

}  // namespace coda
