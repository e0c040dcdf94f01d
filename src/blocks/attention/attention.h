// Causal attention after its checks: two ways to run it.
#pragma once

#include <cstdint>

#include "coda/tensor.h"

namespace coda::attention {

/// q, out: (T, heads·head); k, v: (S, kv_heads·head), columns contiguous, one dtype of f32, bf16 and f16.
struct Call {
  TensorView q, k, v, out;
  std::int64_t heads = 0, kv_heads = 0, head = 0;
  double scale = 0;

  std::int64_t tokens() const { return q.shape(0); }
  std::int64_t keys() const { return k.shape(0); }
  std::int64_t group() const { return heads / kv_heads; }  ///< query heads that share keys and values
};

/// Blocks of queries against blocks of packed keys and values.
void run_blocked(const Call& call);

/// One query: keys and values are read once, in place.
void run_single(const Call& call);

/// Element (row, col) of a view with contiguous columns.
inline void* element_at(const TensorView& view, std::int64_t row, std::int64_t col) {
  return static_cast<char*>(view.data()) +
         (row * view.stride(0) + col) * static_cast<std::int64_t>(size_of(view.dtype()));
}

}  // namespace coda::attention
