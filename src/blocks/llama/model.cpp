// LlamaModel: weights, then forward in four forms. generate is a file of its own.
#include "coda/model.h"

#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "blocks/f16_range.h"
#include "blocks/indices.h"
#include "blocks/llama/config.h"
#include "blocks/llama/state.h"
#include "core/check.h"
#include "core/device_memory.h"
#include "cuda/launch/blocks.h"

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

/// Row i of `out` becomes row numbers[i] of the table.
void gather_on_host(const TensorView& table, std::span<const std::int64_t> numbers, const Tensor& out) {
  const auto element = static_cast<std::int64_t>(size_of(table.dtype()));
  auto* to = out.data<char>();
  for (const std::int64_t number : numbers) {
    const auto* row = static_cast<const char*>(table.data()) + number * table.stride(0) * element;
    for (std::int64_t col = 0; col < table.shape(1); ++col, to += element)
      std::memcpy(to, row + col * table.stride(1) * element, static_cast<std::size_t>(element));
  }
}

}  // namespace

LlamaModel LlamaModel::load(const std::string& folder, std::optional<DType> dtype, Device device) {
  const std::filesystem::path config_path = std::filesystem::path(folder) / "config.json";
  auto state = std::make_shared<State>();
  state->checkpoint.emplace(folder);
  state->config = parse_llama_config(read_text_file(config_path.string()));
  state->device = device;
  state->weights = take_weights(state->config, source_of(*state->checkpoint), {dtype, Ownership::Share, device}, {});
  if (device.kind != DeviceKind::Cpu) state->checkpoint.reset();  // its weights have been copied
  fill_derived(state->config, state->frequencies, state->layer);
  return LlamaModel(std::move(state));
}

LlamaModel::LlamaModel(LlamaConfig config, const Operands& tensors, std::optional<DType> dtype, bool share,
                       Device device, const Execution& where) {
  require_valid(config);
  std::unordered_map<std::string, TensorView> by_name;
  for (const NamedTensor& tensor : tensors)
    REQUIRE(ValueError, by_name.emplace(tensor.name, tensor.tensor).second, "model: tensor '", tensor.name,
            "' is given twice, expected each name once");
  auto state = std::make_shared<State>();
  state->config = std::move(config);
  fill_derived(state->config, state->frequencies, state->layer);
  state->device = device;
  state->weights = take_weights(state->config, source_of(tensors, by_name),
                                {dtype, share ? Ownership::Share : Ownership::Copy, device}, where);
  state->wait();  // its calls may come on any stream
  state_ = std::move(state);
}

LlamaModel::LlamaModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const LlamaConfig& LlamaModel::config() const { return state_->config; }

Device LlamaModel::device() const { return state_->device; }

Tensor LlamaModel::logits(const TensorView& tokens, const Execution& where) const {
  return state_->logits(state_->forward("logits", tokens, where), where);
}

Loss LlamaModel::loss(const TensorView& tokens, const TensorView& targets, LossReduction reduction,
                      std::int64_t ignore_index, const Execution& where) const {
  const LlamaWeights& weights = state_->weights;
  const Caller caller = state_->caller("loss");
  require_indices(caller, "tokens", tokens);
  read_targets(caller, targets, tokens.shape(0), state_->config.vocabulary, ignore_index, where);
  Loss loss = lm_head_loss(state_->forward("loss", tokens, where), weights.final_norm, weights.head, targets, reduction,
                           ignore_index, where);
  require_finite_rows("loss", weights.embedding.dtype(), loss.per_token);
  return loss;
}

void LlamaModel::observe_layers(const TensorView& tokens, const LayerObserver& observer, const Execution& where) const {
  state_->forward("observe_layers", tokens, where, nullptr, observer);
}

void LlamaModel::State::wait() const {
  if (device.kind != DeviceKind::Cpu) device_memory("model", device).wait("model", device);
}

LlamaModel::State::~State() {
  try {
    wait();
  } catch (const Error&) {
    // The GPU failed, or the process is ending: nothing runs there any more.
  }
}

Tensor LlamaModel::State::embedded(std::string_view call, const TensorView& tokens, const Execution& where) const {
  const std::vector<std::int64_t> numbers = read_indices(caller(call), "tokens", tokens, where);
  for (std::size_t row = 0; row < numbers.size(); ++row)
    REQUIRE(IndexError, 0 <= numbers[row] && numbers[row] < config.vocabulary, call, ": token ", numbers[row],
            " in row ", row, " is outside the vocabulary, expected 0 to ", config.vocabulary - 1);
  const TensorView& table = weights.embedding;
  const Tensor x = Tensor::empty({tokens.shape(0), config.width}, table.dtype(), device, where.stream);
  if (device.kind == DeviceKind::Cpu)
    gather_on_host(table, numbers, x);
  else
    cuda::launch_gather(call, table, indices_on(device, numbers, where), x, where.stream);
  return x;
}

RopeTables LlamaModel::State::tables(std::int64_t first, std::int64_t count, std::int64_t sequences,
                                     const Execution& where) const {
  const RopeTables made = rope_tables(frequencies, first, count, sequences);
  if (device.kind == DeviceKind::Cpu) return made;
  return {Tensor::copy_to(made.cos, device, where.stream), Tensor::copy_to(made.sin, device, where.stream)};
}

NormedStream LlamaModel::State::forward(std::string_view call, const TensorView& tokens, const Execution& where,
                                        std::vector<KvCache>* caches, const LayerObserver& observer) const {
  const Tensor x = embedded(call, tokens, where);
  const std::int64_t first = caches != nullptr ? caches->front().length : 0;
  const RopeTables angles = tables(first, tokens.shape(0), 1, where);
  const RopeTensors rope{{}, {}, angles.cos, angles.sin};

  NormedStream stream = enter_norm(x, weights.layers.front().input_norm, where);
  if (observer) observer(0, stream.x);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const bool last = i + 1 == weights.layers.size();
    stream = transformer_layer(stream, weights.layers[i], layer, rope,
                               last ? weights.final_norm : weights.layers[i + 1].input_norm,
                               caches != nullptr ? &(*caches)[i] : nullptr, where);
    if (observer) observer(static_cast<std::int64_t>(i) + 1, stream.x);
  }
  return stream;
}

Tensor LlamaModel::State::logits(const NormedStream& stream, const Execution& where) const {
  return norm_linear(stream, weights.final_norm, weights.head, {}, DType::F32, where);
}

}  // namespace coda
