// Loss and gradients of a LLaMA model: the forward keeps, the backward takes it apart from the head down.
#include <algorithm>
#include <map>

#include "blocks/f16_range.h"
#include "blocks/indices.h"
#include "blocks/llama/embedding_gradient.h"
#include "blocks/llama/state.h"
#include "blocks/training/gradients.h"
#include "core/check.h"

namespace coda {
namespace {

constexpr std::string_view kCall = "loss_and_gradients";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

/// The main gradients by name.
class MainGradients {
 public:
  MainGradients(const Caller& caller, const Operands& parameters, bool tied_head, const Operands& gradients) {
    std::map<std::string, TensorView> known;
    for (const NamedTensor& parameter : parameters) known.emplace(parameter.name, parameter.tensor);
    for (const auto& [name, tensor] : gradients) {
      const auto parameter = known.find(name);
      const bool is_tied = name == "lm_head.weight" && tied_head;
      REQUIRE(ValueError, parameter != known.end(), kCall, ": gradient '", name, "' is of no tensor of ",
              is_tied ? concat("its own: the head is tied, its gradient is part of '", kEmbedding, "'")
                      : concat("the model, expected one of its ", known.size(), " names, such as '", kEmbedding, "'"));
      REQUIRE(ValueError, by_name_.emplace(name, tensor).second, kCall, ": gradient '", name,
              "' is given twice, expected each name once");
      require_gradient(caller, concat("gradient '", name, "'"), tensor, parameter->second);
    }
  }

  MainGradient of(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? MainGradient() : MainGradient(found->second);
  }

  /// The norm that reads the stream before a layer, or behind the last.
  MainGradient norm(std::size_t layer, std::size_t layers) const {
    return of(layer == layers ? "model.norm.weight"
                              : layer_prefix(static_cast<std::int64_t>(layer)) + "input_layernorm.weight");
  }

  LayerGradients layer(std::size_t index, std::size_t layers) const {
    const std::string prefix = layer_prefix(static_cast<std::int64_t>(index));
    const auto weight = [&](const char* name) { return of(concat(prefix, name, ".weight")); };
    const auto bias = [&](const char* name) { return of(concat(prefix, name, ".bias")); };
    LayerGradients into;
    into.qkv = {weight("self_attn.q_proj"), weight("self_attn.k_proj"), weight("self_attn.v_proj"),
                bias("self_attn.q_proj"),   bias("self_attn.k_proj"),   bias("self_attn.v_proj"),
                weight("self_attn.q_norm"), weight("self_attn.k_norm")};
    into.o = weight("self_attn.o_proj");
    into.o_bias = bias("self_attn.o_proj");
    into.post_norm = weight("post_attention_layernorm");
    into.mlp = {weight("mlp.gate_proj"), weight("mlp.up_proj"), bias("mlp.gate_proj"), bias("mlp.up_proj")};
    into.down = weight("mlp.down_proj");
    into.down_bias = bias("mlp.down_proj");
    into.next_norm = norm(index + 1, layers);
    return into;
  }

  /// The lowest layer whose backward is needed; `layers` when none is.
  std::size_t lowest_layer(std::size_t layers) const {
    if (by_name_.contains(kEmbedding)) return 0;
    for (std::size_t i = 0; i < layers; ++i) {
      const std::string prefix = layer_prefix(static_cast<std::int64_t>(i));
      const auto found = by_name_.lower_bound(prefix);
      if (found != by_name_.end() && found->first.starts_with(prefix)) return i;
    }
    return layers;
  }

 private:
  std::map<std::string, TensorView> by_name_;
};

}  // namespace

/// One step: what the forward keeps, and the way back.
class LlamaModel::Step {
 public:
  Step(const State& state, const TrainingOptions& options, const MainGradients& into, const Execution& where)
      : state_(state),
        options_(options),
        into_(into),
        where_(where),
        layers_(state.weights.layers.size()),
        lowest_(into.lowest_layer(layers_)) {}

  Loss run(const TensorView& tokens, const TensorView& targets) {
    const NormedStream last = forward(tokens);
    require_finite_stream(kCall, last, where_);
    const LlamaWeights& weights = state_.weights;
    const MainGradient head = into_.of(state_.config.tied_head ? kEmbedding : "lm_head.weight");
    HeadBackward back =
        lm_head_loss_backward(last, weights.final_norm, weights.head, targets, options_.head, head, where_);
    kept_.push_back({});
    kept_.back().input = saved_stream(last, options_.layers.policy, where_);
    backward(std::move(back.stream), tokens);
    return back.loss;
  }

 private:
  /// The norm that reads the stream before a layer, or behind the last.
  const RmsNorm& norm(std::size_t layer) const {
    return layer == layers_ ? state_.weights.final_norm : state_.weights.layers[layer].input_norm;
  }

  NormedStream forward(const TensorView& tokens) {
    const std::int64_t sequences = options_.layers.sequences;
    tables_ = state_.tables(0, tokens.shape(0) / sequences, sequences, where_);
    NormedStream stream = enter_norm(state_.embedded(kCall, tokens, where_), norm(0), where_);
    for (std::size_t i = 0; i < layers_; ++i) {
      SavedLayer saved;
      stream = transformer_layer_saved(stream, state_.weights.layers[i], state_.layer, rope(), norm(i + 1),
                                       options_.layers, saved, where_);
      kept_.push_back(i < lowest_ ? SavedLayer() : std::move(saved));
    }
    return stream;
  }

  void backward(StreamGradient gradient, const TensorView& tokens) {
    for (std::size_t i = layers_; i-- > lowest_;) {
      gradient =
          transformer_layer_backward(gradient, kept_[i + 1].input, kept_[i], state_.weights.layers[i], state_.layer,
                                     rope(), norm(i + 1), options_.layers, into_.layer(i, layers_), where_);
      kept_.pop_back();
    }
    const MainGradient norm_weight = into_.norm(lowest_, layers_), embedding = into_.of(kEmbedding);
    if (!norm_weight && !embedding) return;
    const StreamBackward start = stream_backward(gradient, kept_[lowest_].input, norm(lowest_), {norm_weight, {}},
                                                 options_.layers.stream_gradient, where_);
    if (embedding)
      add_embedding_gradient(kCall, start.residual, read_indices(state_.caller(kCall), "tokens", tokens, where_),
                             *embedding, where_);
  }

  RopeTensors rope() const { return {{}, {}, tables_.cos, tables_.sin}; }

  const State& state_;
  const TrainingOptions& options_;
  const MainGradients& into_;
  const Execution& where_;
  const std::size_t layers_, lowest_;  ///< lowest layer whose backward is needed
  RopeTables tables_;
  std::vector<SavedLayer> kept_;  ///< by layer; behind the last only its input
};

Operands LlamaModel::parameters() const {
  Operands parameters;
  LlamaWeights weights = state_->weights;
  for_each_tensor(weights, state_->config.tied_head,
                  [&](const std::string& name, const TensorView& view) { parameters.push_back({name, view}); });
  return parameters;
}

Loss LlamaModel::loss_and_gradients(const TensorView& tokens, const TensorView& targets, const Operands& gradients,
                                    const TrainingOptions& options, const Execution& where) const {
  const State& state = *state_;
  const Caller caller = state.caller(kCall);
  require_indices(caller, "tokens", tokens);
  const std::int64_t rows = tokens.shape(0), sequences = options.layers.sequences;
  REQUIRE(ValueError, sequences > 0 && rows % sequences == 0, kCall, ": tokens has ", rows,
          " entries, expected a multiple of ", sequences, " sequences, at least 1, of equal length");
  const std::vector<std::int64_t> numbers =
      read_targets(caller, targets, rows, state.config.vocabulary, options.head.ignore_index, where);
  require_normal_share(kCall, state.weights.embedding.dtype(), numbers, options.head);
  const MainGradients into(caller, parameters(), state.config.tied_head, gradients);
  return Step(state, options, into, where).run(tokens, targets);
}

}  // namespace coda
