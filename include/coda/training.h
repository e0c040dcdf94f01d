// Transformer blocks for training: forwards that keep what a backward needs, and backwards. Every backward epilogue is
// differentiate() of the program the forward ran; attention alone has kernels of its own. docs/training.md tells how
// the parts fit. Shapes, weights and devices are those of blocks.h. Gradients by parameters are *added* to the tensors
// the caller gives (main gradients, of f32 or of the parameter's dtype), unless they are fresh; a parameter without one
// is frozen, and no product is run for it. What is returned has the stream's dtype. Errors of all: ValueError and
// TypeError that name call and argument, for shapes, dtypes and devices before anything is written; as gemm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coda/blocks.h"
#include "coda/main_gradient.h"
#include "coda/stream_gradient.h"

namespace coda {

/// d_out·W, the gradient (T,k) by y of y·Wᵀ. d_out: (T,n); weight: (n,k).
Tensor linear_backward(const TensorView& d_out, const TensorView& weight, const Execution& where = {});
/// into += d_outᵀ·y, the gradient (n,k) by W of y·Wᵀ; nothing where there is no `into`.
void add_weight_gradient(const TensorView& d_out, const TensorView& y, const MainGradient& into,
                         const Execution& where = {});

struct NormLinearGradients {
  MainGradient weight, bias;  ///< (n,d), (n,)
};
/// Backward of norm_linear. d_out, out: (T,n), the gradient by its result and the result.
StreamGradient norm_linear_backward(const TensorView& d_out, const TensorView& out, const SavedStream& stream,
                                    const RmsNorm& norm, const TensorView& weight,
                                    const std::optional<TensorView>& bias = {}, const NormLinearGradients& into = {},
                                    const Execution& where = {});

struct MlpWeights {
  TensorView gate, up;  ///< (f,d)
  std::optional<TensorView> gate_bias, up_bias;
  std::string activation = "swiglu";  ///< one of gates()
};
struct GatedMlp {
  Tensor y;         ///< (T,f) the result
  Tensor gate, up;  ///< (T,f) what the gate was applied to
};
GatedMlp gated_mlp_saved(const NormedStream& stream, const RmsNorm& norm, const MlpWeights& weights,
                         const Execution& where = {});

struct MlpGradients {
  MainGradient gate, up, gate_bias, up_bias;
};
struct GatedMlpBackward {
  StreamGradient stream;
  Tensor y;  ///< (T,f) the forward's result, kept or made again
};
/// Backward of gated_mlp with y·W_downᵀ behind it. d_out: (T,n), the gradient by that product; down: (n,f); saved.y may
/// be without memory: then y is made again from gate and up.
GatedMlpBackward gated_mlp_backward(const TensorView& d_out, const TensorView& down, const GatedMlp& saved,
                                    const SavedStream& stream, const RmsNorm& norm, const MlpWeights& weights,
                                    const MlpGradients& into = {}, const Execution& where = {});

struct SavedQkv {
  Tensor q, k, v;                ///< the results: rotated q and k, and v
  std::optional<Tensor> qz, kz;  ///< q and k before their own norms, where there are any
};
SavedQkv qkv_rope_saved(const NormedStream& stream, const RmsNorm& norm, const QkvWeights& weights,
                        const epilogues::Rope& rope, const RopeTensors& tensors, const Execution& where = {});

struct QkvGradients {
  MainGradient q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm;
};
/// Backward of qkv_rope. d_q, d_k, d_v: the gradients by its results.
StreamGradient qkv_rope_backward(const TensorView& d_q, const TensorView& d_k, const TensorView& d_v,
                                 const SavedQkv& saved, const SavedStream& stream, const RmsNorm& norm,
                                 const QkvWeights& weights, const epilogues::Rope& rope, const RopeTensors& tensors,
                                 const QkvGradients& into = {}, const Execution& where = {});

/// Heads of causal attention over `sequences` sequences of equal length, one behind the other.
struct AttentionShape {
  std::int64_t heads = 0, kv_heads = 0, sequences = 1;
  double scale = 0;  ///< 0: 1/√head
};
struct SavedAttention {
  Tensor out;  ///< (T, heads·head)
  Tensor lse;  ///< (T, heads) f32, log Σ exp of the scaled scores
};
/// causal_attention of queries that see only keys of their own sequence. q: (T, heads·head); k, v: (T, kv_heads·head).
/// Errors: NotImplementedError on a GPU for heads of other sizes than multiples of 8 up to 256.
SavedAttention causal_attention_saved(const TensorView& q, const TensorView& k, const TensorView& v,
                                      const AttentionShape& shape, const Execution& where = {});
/// The gradients by q, k and v, summed in fp32 in an order that depends on nothing but the shapes.
Qkv causal_attention_backward(const TensorView& d_out, const TensorView& q, const TensorView& k, const TensorView& v,
                              const SavedAttention& saved, const AttentionShape& shape, const Execution& where = {});

struct HeadOptions {
  LossReduction reduction = LossReduction::Mean;  ///< Mean or Sum
  std::int64_t ignore_index = -100;
  double factor = 1;              ///< of the gradient: 1/steps where gradients are accumulated
  std::int64_t chunk_tokens = 0;  ///< whose logits are in memory at a time, a multiple of 64; 0: about 64 MB of them
};
struct HeadBackward {
  Loss loss;
  StreamGradient stream;
};
/// lm_head_loss and its backward at once, over chunks of tokens: three products. into: (V,d). Errors: as lm_head_loss;
/// ValueError in f16 for a factor whose share of a token is no normal number.
HeadBackward lm_head_loss_backward(const NormedStream& stream, const RmsNorm& norm, const TensorView& weight,
                                   const TensorView& targets, const HeadOptions& options = {},
                                   const MainGradient& into = {}, const Execution& where = {});

/// What is kept of a layer.
struct SavedLayer {
  SavedStream input;
  SavedQkv qkv;
  SavedAttention attention;
  SavedStream middle;  ///< the stream between attention and MLP
  GatedMlp mlp;        ///< y without memory when lean
};
/// A tensor that is kept, in words.
struct SavedItem {
  std::string_view what;
  std::int64_t bytes;
};
/// The tensors kept, each once; and the bytes of all.
std::vector<SavedItem> saved_items(const SavedLayer& saved);
std::int64_t saved_bytes(const SavedLayer& saved);

struct LayerTraining {
  std::int64_t sequences = 1;  ///< of equal length, one behind the other
  SavedPolicy policy = SavedPolicy::Fast;
  StreamGradientDType stream_gradient = StreamGradientDType::Stream;
};
/// transformer_layer that keeps what its backward needs.
NormedStream transformer_layer_saved(const NormedStream& stream, const LayerWeights& weights, const LayerConfig& config,
                                     const RopeTensors& rope, const RmsNorm& next_norm, const LayerTraining& training,
                                     SavedLayer& saved, const Execution& where = {});

struct LayerGradients {
  QkvGradients qkv;
  MainGradient o, o_bias;
  MainGradient post_norm;
  MlpGradients mlp;
  MainGradient down, down_bias;
  MainGradient next_norm;  ///< of the norm that reads the result; that of input_norm is its maker's to add
};
/// From the gradient by the layer's result, which was kept as `output`, to that by the stream it began with.
StreamGradient transformer_layer_backward(const StreamGradient& gradient, const SavedStream& output,
                                          const SavedLayer& saved, const LayerWeights& weights,
                                          const LayerConfig& config, const RopeTensors& rope, const RmsNorm& next_norm,
                                          const LayerTraining& training, const LayerGradients& into,
                                          const Execution& where = {});

/// How LlamaModel::loss_and_gradients runs.
struct TrainingOptions {
  LayerTraining layers{};
  HeadOptions head{};
};

}  // namespace coda
