// A LLaMA-family model read from a Hugging Face folder (config.json, *.safetensors) or from tensors in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coda/blocks.h"
#include "coda/problem.h"
#include "coda/training.h"

namespace coda {

/// What config.json says, under the names it uses there in the comments.
struct LlamaConfig {
  std::int64_t vocabulary = 0;  ///< vocab_size
  std::int64_t width = 0;       ///< hidden_size
  std::int64_t mlp_width = 0;   ///< intermediate_size
  std::int64_t layers = 0;      ///< num_hidden_layers
  std::int64_t heads = 0;       ///< num_attention_heads
  std::int64_t kv_heads = 0;    ///< num_key_value_heads; absent: heads
  std::int64_t head = 0;        ///< head_dim; absent: width / heads
  double eps = 1e-6;            ///< rms_norm_eps
  double rope_theta = 10000.0;  ///< rope_theta, or rope_parameters.rope_theta
  /// rope_scaling / rope_parameters with rope_type llama3 or linear: the (head/2,) inverse frequencies it gives.
  std::vector<float> rope_frequencies;
  bool tied_head = false;           ///< tie_word_embeddings
  bool qkv_bias = false;            ///< attention_bias (q, k, v, and o where the checkpoint has it); always in Qwen2
  bool qk_norm = false;             ///< Qwen3: an RMSNorm over each head of q and k before the rotation
  bool mlp_bias = false;            ///< mlp_bias
  std::string activation = "silu";  ///< hidden_act; silu, gelu, gelu_pytorch_tanh or relu
};

/// Reads the fields above; docs/models.md lists them. Errors: ValueError naming field and cure; NotImplementedError for
/// a model coda does not run (another architecture, rope type, attention dropout, sliding window).
LlamaConfig parse_llama_config(const std::string& json_text);

class LlamaModel {
 public:
  /// Reads a folder with config.json and model.safetensors, or the shards model.safetensors.index.json names.
  /// `dtype`: convert weights to it; nothing: as stored. `device`: where the weights are copied to, and where it runs.
  /// Errors: FileError, ValueError, OutOfMemoryError; nothing is half-loaded.
  static LlamaModel load(const std::string& folder, std::optional<DType> dtype = {}, Device device = {});

  /// From a checkpoint's tensors by name ("model.layers.0.self_attn.q_proj.weight"), in host memory or on `device`. The
  /// views are copied unless `share`: then they must outlive the model. `where`: the stream behind whose work tensors
  /// on a GPU are read.
  LlamaModel(LlamaConfig config, const Operands& tensors, std::optional<DType> dtype = {}, bool share = false,
             Device device = {}, const Execution& where = {});

  const LlamaConfig& config() const;
  Device device() const;

  // Tokens may be in host memory or on any GPU. On a GPU the work is queued on `where.stream`.

  /// Logits (T,V) f32 of one sequence, on the model's device. tokens: (T,) i32 or i64. Errors: IndexError for a token
  /// outside [0,V).
  Tensor logits(const TensorView& tokens, const Execution& where = {}) const;

  /// Cross entropy of predicting targets[t] from tokens[0…t]; logits are never stored. Errors: ValueError for a loss
  /// that f16 has no number for.
  Loss loss(const TensorView& tokens, const TensorView& targets, LossReduction reduction = LossReduction::Mean,
            std::int64_t ignore_index = -100, const Execution& where = {}) const;

  /// The tensors the model runs with, under the checkpoint's names, a tied head left out: what gradients can be had of.
  Operands parameters() const;

  /// The loss, and its gradient by each parameter `gradients` names, added to the tensor given for it: of the
  /// parameter's shape, in f32 or in its dtype. The others are frozen: no product is run for them, nor for layers below
  /// all of `gradients`. The gradient by a tied head is part of that by the embedding. tokens, targets: (T,), all
  /// sequences one behind the other. On a GPU it waits for the losses. Two runs give the same bits. Errors: ValueError,
  /// TypeError, IndexError before anything is written, among them what f16 has no numbers for: a stream or a share of
  /// the gradient beyond its range.
  Loss loss_and_gradients(const TensorView& tokens, const TensorView& targets, const Operands& gradients,
                          const TrainingOptions& options = {}, const Execution& where = {}) const;

  /// Hidden state (T,d) after each layer, called in order: index 0 is the embedding, `layers` the last layer's output
  /// before the final norm. On the model's device; on a GPU what writes it may still be queued on the stream.
  using LayerObserver = std::function<void(std::int64_t index, const TensorView& hidden)>;
  void observe_layers(const TensorView& tokens, const LayerObserver& observer, const Execution& where = {}) const;

  struct Sampling {
    double temperature = 0;  ///< 0: greedy
    double top_p = 1;        ///< sample from the fewest likeliest tokens whose probabilities sum to at least this
    std::uint64_t seed = 0;
  };
  /// Continues a prompt of at least one token: calls `on_token` with each new token until it returns false or `count`
  /// are made. Errors: ValueError for options out of range and for logits that are NaN.
  void generate(const TensorView& prompt, std::int64_t count, const std::function<bool(std::int64_t)>& on_token,
                const Sampling& sampling, const Execution& where = {}) const;

 private:
  struct State;
  class Step;
  explicit LlamaModel(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace coda
