// Transformer blocks, forward: each is a few gemm() calls with programs of the library; attention alone has kernels of
// its own. Shapes: T tokens, d width, f MLP width, V vocabulary; weights as the checkpoint has them, (out, in).
// All tensors of a call are on one device, where its results are too. On a GPU (bf16 and f16) the work is queued on
// `where.stream`, and results belong to it (see Tensor).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coda/backend.h"
#include "coda/epilogues.h"
#include "coda/tensor.h"

namespace coda {

/// The residual stream between two blocks: what the delayed norm needs of it.
struct NormedStream {
  Tensor x;       ///< (T,d) the residual stream
  Tensor h;       ///< (T,d) x·γ, γ the weight of the norm that comes next; x itself for a norm without weight
  Tensor sum_sq;  ///< (T, partials) f32, partial Σx² for the row factor of that norm
};

struct RmsNorm {
  TensorView weight;  ///< (d,); not read when kind is None
  double eps = 1e-6;
  epilogues::NormWeight kind = epilogues::NormWeight::Gamma;
};

/// Start of a chain: x (T,d) → x, x·γ, Σx², the one pass that is next to no GEMM.
NormedStream enter_norm(const TensorView& x, const RmsNorm& norm, const Execution& where = {});

/// y·Wᵀ (+ bias) + x, and what the next norm needs of it. y: (T,k); weight: (d,k); x: (T,d).
NormedStream residual_norm(const TensorView& y, const TensorView& weight, const TensorView& x, const RmsNorm& next,
                           const std::optional<TensorView>& bias = {}, const Execution& where = {});

/// norm(x)·Wᵀ (+ bias) from a stream. weight: (n,d); result: (T,n) in `dtype`, or in the stream's.
Tensor norm_linear(const NormedStream& stream, const RmsNorm& norm, const TensorView& weight,
                   const std::optional<TensorView>& bias = {}, std::optional<DType> dtype = {},
                   const Execution& where = {});

/// gate(norm(x)·W_gateᵀ, norm(x)·W_upᵀ): (T,f). `gate` names one of gates().
Tensor gated_mlp(const NormedStream& stream, const RmsNorm& norm, const TensorView& gate_weight,
                 const TensorView& up_weight, const std::string& gate = "swiglu",
                 const std::optional<TensorView>& gate_bias = {}, const std::optional<TensorView>& up_bias = {},
                 const Execution& where = {});

struct QkvWeights {
  TensorView q, k, v;  ///< (heads·head, d), (kv_heads·head, d), (kv_heads·head, d)
  std::optional<TensorView> q_bias, k_bias, v_bias;
  std::optional<RmsNorm> q_norm, k_norm;  ///< per-head norms before the rotation (Qwen3); weight: (head,)
};
struct Qkv {
  Tensor q, k, v;
};
/// Rotated q and k, and v, of norm(x): one launch. positions: (T,) i32, i64 or f32.
/// frequencies: (width/2,) f32 when rope.angles is Frequency; cos, sin: (T, width/2) when it is Table.
struct RopeTensors {
  std::optional<TensorView> positions, frequencies, cos, sin;
};
Qkv qkv_rope(const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights, const epilogues::Rope& rope,
             const RopeTensors& tensors, const Execution& where = {});

/// Causal grouped-query attention over contiguous sequences. q: (T, heads·head); k, v: (S, kv_heads·head), S ≥ T:
/// query t sees keys 0 … S − T + t. Result: (T, heads·head) in q's dtype. `scale` 0: 1/√head. Errors:
/// NotImplementedError on a GPU for heads of other sizes than multiples of 8 up to 256.
Tensor causal_attention(const TensorView& q, const TensorView& k, const TensorView& v, std::int64_t heads,
                        std::int64_t kv_heads, double scale = 0, const Execution& where = {});

enum class LossReduction : std::uint8_t { Mean, Sum, None };
struct Loss {
  double value = 0;  ///< mean over counted tokens (NaN when there is none, as PyTorch), or sum; 0 for None
  Tensor per_token;  ///< (T,) f32 in host memory; 0 where ignored
  std::int64_t counted = 0;
};
/// Cross entropy of norm(x)·Wᵀ with targets, the (T,V) logits never stored. targets: (T,) i32 or i64, in host memory
/// or on a GPU. Waits for the stream.
/// Errors: IndexError for a target outside [0,V) that is not ignore_index.
Loss lm_head_loss(const NormedStream& stream, const RmsNorm& norm, const TensorView& weight, const TensorView& targets,
                  LossReduction reduction = LossReduction::Mean, std::int64_t ignore_index = -100,
                  const Execution& where = {});

struct LayerWeights {
  RmsNorm input_norm;  ///< γ before attention
  QkvWeights qkv;
  TensorView o;  ///< (d, heads·head)
  std::optional<TensorView> o_bias;
  RmsNorm post_norm;    ///< γ before the MLP
  TensorView gate, up;  ///< (f, d)
  TensorView down;      ///< (d, f)
  std::optional<TensorView> gate_bias, up_bias, down_bias;
};
struct LayerConfig {
  std::int64_t heads = 0, kv_heads = 0, head = 0;
  epilogues::Rope rope;
  std::string gate = "swiglu";
};
/// Keys and values of earlier tokens, (capacity, kv_heads·head); `length` of them filled. Empty: no cache.
struct KvCache {
  Tensor k, v;
  std::int64_t length = 0;
};
/// One decoder layer on a stream, ending in what the next norm needs: four GEMM launches and attention.
NormedStream transformer_layer(const NormedStream& stream, const LayerWeights& weights, const LayerConfig& config,
                               const RopeTensors& rope, const RmsNorm& next_norm, KvCache* cache = nullptr,
                               const Execution& where = {});

}  // namespace coda
