// What a model holds, and the one way through its layers.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "blocks/arguments.h"
#include "blocks/llama/rope_frequencies.h"
#include "blocks/llama/weights.h"
#include "coda/model.h"
#include "coda/safetensors.h"

namespace coda {

struct LlamaModel::State {
  State() = default;
  /// Waits: kernels may still read the weights.
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  LlamaConfig config;
  Device device;
  LayerConfig layer;
  std::vector<float> frequencies;
  std::optional<Checkpoint> checkpoint;  ///< keeps the mapped file that weights point into
  LlamaWeights weights;

  /// Until what was queued on the model's GPU has ended, whatever its stream.
  void wait() const;

  Caller caller(std::string_view call) const { return {call, {device, "the model"}}; }

  /// Rows of the embedding. Errors: IndexError for a token outside [0,V).
  Tensor embedded(std::string_view call, const TensorView& tokens, const Execution& where) const;

  /// cos and sin of positions first … first + count − 1 of each sequence, on the model's device.
  RopeTables tables(std::int64_t first, std::int64_t count, std::int64_t sequences, const Execution& where) const;

  /// Hidden states after the last layer, ready for the final norm. `caches`: one a layer, extended by the tokens.
  NormedStream forward(std::string_view call, const TensorView& tokens, const Execution& where,
                       std::vector<KvCache>* caches = nullptr, const LayerObserver& observer = {}) const;

  /// Logits f32 of a stream that forward gave.
  Tensor logits(const NormedStream& stream, const Execution& where) const;
};

}  // namespace coda
