// Causal attention after its checks: two ways to run it.
#pragma once

#include <cstdint>

#include "blocks/arguments.h"
#include "cpu/panel.h"

namespace coda::attention {

/// Errors: ValueError, TypeError for arguments causal_attention does not take. The caller is at home where q is.
Caller check(std::string_view call, const TensorView& q, const TensorView& k, const TensorView& v, std::int64_t heads,
             std::int64_t kv_heads, double scale);

/// The view, or a copy whose columns are contiguous; `copy` keeps it alive.
TensorView with_contiguous_columns(const TensorView& view, Tensor& copy);

/// The scale that is meant: 0 is 1/√head.
double scale_of(double scale, std::int64_t head);

/// q, out: (T, heads·head); k, v: (S, kv_heads·head), columns contiguous, one dtype of f32, bf16 and f16.
struct Call {
  TensorView q, k, v, out;
  std::int64_t heads = 0, kv_heads = 0, head = 0;
  double scale = 0;
  TensorView lse{};  ///< (T, heads) f32, log Σ exp of the scaled scores; without memory: not wanted

  std::int64_t tokens() const { return q.shape(0); }
  std::int64_t keys() const { return k.shape(0); }
  std::int64_t group() const { return heads / kv_heads; }  ///< query heads that share keys and values
};

/// Blocks of queries against blocks of packed keys and values.
void run_blocked(const Call& call);

/// Gradients by q, k and v of a call that left its lse, of their shapes and dtype; as many keys as queries.
struct BackwardCall {
  Call forward;
  TensorView d_out, d_q, d_k, d_v;
};
void run_backward(const BackwardCall& call);

/// One query: keys and values are read once, in place. Leaves no lse.
void run_single(const Call& call);

/// Element (row, col) of a view with contiguous columns.
inline void* element_at(const TensorView& view, std::int64_t row, std::int64_t col) {
  return static_cast<char*>(view.data()) +
         (row * view.stride(0) + col) * static_cast<std::int64_t>(size_of(view.dtype()));
}

/// The factor of a panel product that begins there.
inline cpu::MatrixRef matrix(const TensorView& view, std::int64_t row, std::int64_t col) {
  return {element_at(view, row, col), view.dtype(), view.stride(0), 1};
}

}  // namespace coda::attention
