// Where f16 ends: what a model refuses rather than lose it in silence. Every other dtype passes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "coda/backend.h"
#include "coda/training.h"

namespace coda {

/// The gradient by the loss of one token that counts; infinite for a mean of none.
double token_share(std::span<const std::int64_t> targets, const HeadOptions& options);

/// Errors: ValueError where a token's share is below the smallest normal number: the gradient by logits of that dtype
/// has lost bits before the first product.
void require_normal_share(std::string_view call, DType dtype, std::span<const std::int64_t> targets,
                          const HeadOptions& options);

/// of_rows: (T, n) f32 in host memory, such as the losses. Errors: ValueError naming the first row with a NaN or an
/// infinity.
void require_finite_rows(std::string_view call, DType dtype, const TensorView& of_rows);

/// The same of the stream the head reads, before it runs: one pass over x·γ. On a GPU it waits.
void require_finite_stream(std::string_view call, const NormedStream& stream, const Execution& where);

}  // namespace coda
