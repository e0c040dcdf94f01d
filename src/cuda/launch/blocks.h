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
};

/// Queued on a stream. Errors: NotImplementedError for a head that is no multiple of 8 up to 256, for more than 2³¹
/// tokens, and on a GPU coda has no kernels for; as load_kernel; DeviceError.
void launch_attention(std::string_view call, const Attention& attention, void* stream);

/// Row i of out becomes row numbers[i] of the table: (V, d) and (T, d) of one 16- or 32-bit dtype and any strides;
/// numbers: (T,) contiguous i64 in [0, V). Queued on a stream. Errors: as launch_attention.
void launch_gather(std::string_view call, const TensorView& table, const TensorView& numbers, const TensorView& out,
                   void* stream);

}  // namespace coda::cuda
