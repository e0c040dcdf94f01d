// Launches of the kernels that are no program on a product.
#pragma once

#include <cstdint>
#include <string_view>

#include "coda/tensor.h"

namespace coda::cuda {

/// Causal attention as coda/blocks.h defines it, its arguments checked: q, out (T, heads·head), k, v (S,
/// kv_heads·head) of any strides, one dtype of f32, bf16 and f16, on one GPU.
struct Attention {
  TensorView q, k, v, out;
  std::int64_t heads = 0, kv_heads = 0;
  double scale = 0;
  TensorView lse{};  ///< (T, heads) f32, log Σ exp of the scaled scores; without memory: not wanted
};

/// Queued on a stream. Errors: NotImplementedError for a head that is no multiple of 8 up to 256, for more than 2³¹
/// tokens, and on a GPU coda has no kernels for; as load_kernel; DeviceError.
void launch_attention(std::string_view call, const Attention& attention, void* stream);

/// Of an Attention that left its lse, as many keys as queries: the gradients by q, k and v, of their shapes and dtype.
struct AttentionBackward {
  Attention forward;
  TensorView d_out, d_q, d_k, d_v;
  TensorView means;  ///< (T, heads) f32, memory to work in
};

/// Queued on a stream, three kernels. Errors: as launch_attention.
void launch_attention_backward(std::string_view call, const AttentionBackward& backward, void* stream);

/// Row i of out becomes row numbers[i] of the table: (V, d) and (T, d) of one 16- or 32-bit dtype and any strides;
/// numbers: (T,) contiguous i64 in [0, V). Queued on a stream. Errors: as launch_attention.
void launch_gather(std::string_view call, const TensorView& table, const TensorView& numbers, const TensorView& out,
                   void* stream);

/// Rows of `from` (T, d), grouped by the row of `into` (V, d) they are added to: group g has rows order[starts[g]] …
/// order[starts[g + 1] − 1] and goes to row numbers[g]. All three on the GPU, contiguous i64.
struct AddRows {
  TensorView from, into, order, starts, numbers;
};

/// Each group is summed in its order, with what is in `into`, in double, and rounded once. Queued on a stream. Errors:
/// as launch_attention.
void launch_add_rows(std::string_view call, const AddRows& rows, void* stream);

}  // namespace coda::cuda
