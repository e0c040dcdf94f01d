// The pieces several programs of the library share: one source file each in pieces/. `call` is the name errors begin
// with, the function the user called. As everywhere in the library, no expression makes nodes in two of its operands:
// C++ leaves their order open, and a program's text must not depend on the compiler.
#pragma once

#include <string>
#include <string_view>

#include "coda/build.h"
#include "coda/epilogues.h"

namespace coda::epilogues {

/// r = rsqrt(Σ/count + eps), a Col, from the partial sums in operand sum_sq.
Value row_factor(Builder& b, std::string_view call, const DelayedRms& norm);

/// x·γ or x·(1 + γ), γ from operand gamma with one entry for every `period` columns (0: one a column); or x itself.
Value weighted(Builder& b, const Value& x, NormWeight weight, std::int64_t period = 0);

/// z + the Row operand `operand`; z itself unless `present`.
Value biased(Builder& b, const Value& z, bool present, const std::string& operand = "bias");

/// z normalised over each head, without its weight.
Value head_normed(std::string_view call, const Value& z, std::int64_t head, double eps);

/// Heads of z rotated by position.
Value rotated(Builder& b, std::string_view call, const Value& z, const Rope& rope);

/// Stores partial Σx² (sum_sq) and, with a weight, x·γ (h): what the norm of the next product needs of x.
void store_norm_input(Builder& b, std::string_view call, const Value& x, NormWeight weight, std::int64_t partial_width);

/// Stores gate(first, second), biased, and its inputs if asked.
void store_gated(Builder& b, const Value& first, const Value& second, const Gated& options);
/// Name of the gate the options ask for. Errors: ValueError for an unknown one.
std::string gate_name(const Gated& options);

/// Stores the log-sum-exp partials and the target's logit of the logits z, and the logits if asked.
void store_loss(Builder& b, std::string_view call, const Value& z, const Lse& options);

// The checks of options. Each names the option as the user wrote it ("norm.eps").
void require_eps(std::string_view call, std::string_view option, double eps);
void require_head(std::string_view call, const Rope& rope);
void require_partial_width(std::string_view call, std::string_view option, std::int64_t width);

}  // namespace coda::epilogues
