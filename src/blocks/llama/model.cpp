// LlamaModel: weights, then forward in four forms. generate is a file of its own.
#include "coda/model.h"

#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "blocks/indices.h"
#include "blocks/llama/config.h"
#include "blocks/llama/rope_frequencies.h"
#include "blocks/llama/state.h"
#include "core/check.h"

namespace coda {
namespace {

WeightSource source_of(const Checkpoint& checkpoint) {
  return {concat("folder '", checkpoint.folder(), "'"), checkpoint.names(),
          [&](const std::string& name) { return checkpoint.view(name); }};
}

WeightSource source_of(const Operands& tensors, const std::unordered_map<std::string, TensorView>& by_name) {
  WeightSource source{"the given tensors", {}, [&](const std::string& name) { return by_name.at(name); }};
  for (const NamedTensor& tensor : tensors) source.names.push_back(tensor.name);
  return source;
}

void fill_derived(const LlamaConfig& config, std::vector<float>& frequencies, LayerConfig& layer) {
  layer = {config.heads, config.kv_heads, config.head, {}, gate_of(config)};
  layer.rope.head = config.head;
  layer.rope.angles = epilogues::Rope::Angles::Table;
  frequencies =
      config.rope_frequencies.empty() ? base_frequencies(config.rope_theta, config.head) : config.rope_frequencies;
}

}  // namespace

LlamaModel LlamaModel::load(const std::string& folder, std::optional<DType> dtype) {
  const std::filesystem::path config_path = std::filesystem::path(folder) / "config.json";
  auto state = std::make_shared<State>();
  state->checkpoint.emplace(folder);
  state->config = parse_llama_config(read_text_file(config_path.string()));
  state->weights = take_weights(state->config, source_of(*state->checkpoint), dtype, Ownership::Share);
  fill_derived(state->config, state->frequencies, state->layer);
  return LlamaModel(std::move(state));
}

LlamaModel::LlamaModel(LlamaConfig config, const Operands& tensors, std::optional<DType> dtype, bool share) {
  require_valid(config);
  std::unordered_map<std::string, TensorView> by_name;
  for (const NamedTensor& tensor : tensors)
    REQUIRE(ValueError, by_name.emplace(tensor.name, tensor.tensor).second, "model: tensor '", tensor.name,
            "' is given twice, expected each name once");
  auto state = std::make_shared<State>();
  state->config = std::move(config);
  fill_derived(state->config, state->frequencies, state->layer);
  state->weights =
      take_weights(state->config, source_of(tensors, by_name), dtype, share ? Ownership::Share : Ownership::Copy);
  state_ = std::move(state);
}

LlamaModel::LlamaModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const LlamaConfig& LlamaModel::config() const { return state_->config; }

Tensor LlamaModel::logits(const TensorView& tokens) const { return state_->logits(state_->forward("logits", tokens)); }

Loss LlamaModel::loss(const TensorView& tokens, const TensorView& targets, LossReduction reduction,
                      std::int64_t ignore_index) const {
  const LlamaWeights& weights = state_->weights;
  require_indices("loss", "tokens", tokens);
  check_targets("loss", targets, tokens.shape(0), state_->config.vocabulary, ignore_index);
  return lm_head_loss(state_->forward("loss", tokens), weights.final_norm, weights.head, targets, reduction,
                      ignore_index);
}

void LlamaModel::observe_layers(const TensorView& tokens, const LayerObserver& observer) const {
  state_->forward("observe_layers", tokens, nullptr, observer);
}

Tensor LlamaModel::State::embedded(std::string_view call, const TensorView& tokens) const {
  require_indices(call, "tokens", tokens);
  const TensorView& table = weights.embedding;
  const std::size_t element = size_of(table.dtype());
  Tensor x = Tensor::empty({tokens.shape(0), config.width}, table.dtype());
  auto* out = x.data<char>();
  for (std::int64_t row = 0; row < tokens.shape(0); ++row) {
    const std::int64_t token = index_at(tokens, row);
    REQUIRE(IndexError, 0 <= token && token < config.vocabulary, call, ": token ", token, " in row ", row,
            " is outside the vocabulary, expected 0 to ", config.vocabulary - 1);
    const auto* entry =
        static_cast<const char*>(table.data()) + token * table.stride(0) * static_cast<std::int64_t>(element);
    for (std::int64_t col = 0; col < config.width; ++col, out += element)
      std::memcpy(out, entry + col * table.stride(1) * static_cast<std::int64_t>(element), element);
  }
  return x;
}

NormedStream LlamaModel::State::forward(std::string_view call, const TensorView& tokens, std::vector<KvCache>* caches,
                                        const LayerObserver& observer) const {
  const Tensor x = embedded(call, tokens);
  const std::int64_t first = caches != nullptr ? caches->front().length : 0;
  const RopeTables tables = rope_tables(frequencies, first, tokens.shape(0));
  const RopeTensors rope{{}, {}, tables.cos, tables.sin};

  NormedStream stream = enter_norm(x, weights.layers.front().input_norm);
  if (observer) observer(0, stream.x);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const bool last = i + 1 == weights.layers.size();
    stream = transformer_layer(stream, weights.layers[i], layer, rope,
                               last ? weights.final_norm : weights.layers[i + 1].input_norm,
                               caches != nullptr ? &(*caches)[i] : nullptr);
    if (observer) observer(static_cast<std::int64_t>(i) + 1, stream.x);
  }
  return stream;
}

Tensor LlamaModel::State::logits(const NormedStream& stream) const {
  return norm_linear(stream, weights.final_norm, weights.head, {}, DType::F32);
}

}  // namespace coda
