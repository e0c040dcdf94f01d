// config.json of the LLaMA family → LlamaConfig. What coda does not run is refused here, by name.
#include "blocks/llama/config.h"

#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "blocks/llama/config_fields.h"
#include "blocks/llama/rope_frequencies.h"
#include "coda/model.h"
#include "core/check.h"

namespace coda {
namespace {

using nlohmann::json;

constexpr std::int64_t kLargestHead = 65536;

struct Family {
  std::string_view architecture;
  std::string_view model_type;
  bool always_qkv_bias;
  bool qk_norm;
};
constexpr std::array<Family, 4> kFamilies = {{
    {"LlamaForCausalLM", "llama", false, false},
    {"MistralForCausalLM", "mistral", false, false},
    {"Qwen2ForCausalLM", "qwen2", true, false},
    {"Qwen3ForCausalLM", "qwen3", false, true},
}};
constexpr std::string_view kRun = "expected LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM or Qwen3ForCausalLM";

const Family& find_family(const ConfigFields& fields) {
  if (const json* names = fields.find("architectures")) {
    REQUIRE(ValueError, names->is_array() && !names->empty() && (*names)[0].is_string(), "config: architectures is ",
            names->dump(), ", expected a list of one class name");
    const auto name = (*names)[0].get<std::string>();
    for (const Family& family : kFamilies)
      if (family.architecture == name) return family;
    throw NotImplementedError(concat("config: architecture ", name, " is not run, ", kRun));
  }
  const std::optional<std::string> type = fields.text("model_type");
  REQUIRE(ValueError, type, "config: architectures and model_type are missing, ", kRun);
  for (const Family& family : kFamilies)
    if (family.model_type == *type) return family;
  throw NotImplementedError(concat("config: model_type ", *type, " is not run, ", kRun));
}

void refuse_what_is_not_run(const ConfigFields& fields) {
  REQUIRE(NotImplementedError, fields.number("attention_dropout").value_or(0) == 0,
          "config: attention_dropout is not run, expected 0: set it to 0 for inference");
  REQUIRE(NotImplementedError, fields.find("quantization_config") == nullptr,
          "config: quantization_config is not run, expected unquantised weights: save the model dequantised");
  // Qwen files name a window even where use_sliding_window is false.
  const bool window = fields.find("sliding_window") != nullptr && fields.flag("use_sliding_window", true);
  REQUIRE(NotImplementedError, !window,
          "config: sliding_window is not run, expected null: coda attends to the whole context");
  if (const json* types = fields.find("layer_types"))
    for (const json& type : *types)
      REQUIRE(NotImplementedError, type == "full_attention", "config: layer_types has ", type.dump(),
              ", which is not run, expected full_attention");
}

/// hidden_act under the names LlamaConfig uses.
std::string activation_name(const ConfigFields& fields) {
  const std::string name = fields.text("hidden_act").value_or("silu");
  if (name == "swish") return "silu";
  return name == "gelu_new" ? "gelu_pytorch_tanh" : name;
}

std::vector<float> llama3_from(const ConfigFields& rope, const ConfigFields& fields, std::vector<float> frequencies) {
  Llama3Rope values;
  values.factor = rope.required_number("factor");
  values.low_freq_factor = rope.required_number("low_freq_factor");
  values.high_freq_factor = rope.required_number("high_freq_factor");
  const auto original = rope.number("original_max_position_embeddings");
  values.original_length = original ? *original : fields.required_number("max_position_embeddings");
  REQUIRE(ValueError,
          values.factor > 0 && values.low_freq_factor > 0 && values.high_freq_factor > values.low_freq_factor &&
              values.original_length > 0,
          "config: llama3 rope has factor ", values.factor, ", low_freq_factor ", values.low_freq_factor,
          ", high_freq_factor ", values.high_freq_factor, " and original_max_position_embeddings ",
          values.original_length, ", expected positive numbers with low < high");
  return llama3_frequencies(std::move(frequencies), values);
}

/// rope_theta and frequencies, from rope_parameters (transformers 5) or rope_scaling and rope_theta (before).
void read_rope(const ConfigFields& fields, LlamaConfig& config) {
  const char* name = fields.find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  const json empty = json::object();
  const json* object = fields.find(name);
  REQUIRE(ValueError, object == nullptr || object->is_object(), "config: ", name, " is ", object->dump(),
          ", expected an object");
  const ConfigFields rope(object != nullptr ? *object : empty, concat(name, "."));

  const auto theta = rope.number("rope_theta");
  config.rope_theta = theta ? *theta : fields.number("rope_theta").value_or(10000.0);
  REQUIRE(ValueError, config.rope_theta > 0, "config: rope_theta is ", config.rope_theta,
          ", expected a positive number");
  for (const auto& source : {rope, fields})
    REQUIRE(NotImplementedError, source.number("partial_rotary_factor").value_or(1) == 1,
            "config: partial_rotary_factor other than 1 is not run for this model");

  const auto old_name = rope.text("type");
  const std::string type = rope.text("rope_type").value_or(old_name.value_or("default"));
  if (type == "default") return;
  REQUIRE(NotImplementedError, type == "linear" || type == "llama3", "config: rope type ", type,
          " is not run, expected default, linear or llama3");
  config.rope_frequencies = base_frequencies(config.rope_theta, config.head);
  if (type == "llama3") {
    config.rope_frequencies = llama3_from(rope, fields, std::move(config.rope_frequencies));
    return;
  }
  const double factor = rope.required_number("factor");
  REQUIRE(ValueError, factor > 0, "config: ", name, ".factor is ", factor, ", expected a positive number");
  for (float& frequency : config.rope_frequencies) frequency /= static_cast<float>(factor);
}

void read_sizes(const ConfigFields& fields, LlamaConfig& config) {
  config.vocabulary = fields.required_integer("vocab_size");
  config.width = fields.required_integer("hidden_size");
  config.mlp_width = fields.required_integer("intermediate_size");
  config.layers = fields.required_integer("num_hidden_layers");
  config.heads = fields.required_integer("num_attention_heads");
  config.kv_heads = fields.integer("num_key_value_heads").value_or(config.heads);
  const auto head = fields.integer("head_dim");
  REQUIRE(ValueError, head || config.width % config.heads == 0, "config: hidden_size ", config.width,
          " is no multiple of num_attention_heads ", config.heads, ": give head_dim");
  config.head = head ? *head : config.width / config.heads;
}

}  // namespace

void require_valid(const LlamaConfig& config) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, std::int64_t>>{{"vocab_size", config.vocabulary},
                                                                   {"hidden_size", config.width},
                                                                   {"intermediate_size", config.mlp_width},
                                                                   {"num_hidden_layers", config.layers},
                                                                   {"num_attention_heads", config.heads},
                                                                   {"num_key_value_heads", config.kv_heads},
                                                                   {"head_dim", config.head}})
    REQUIRE(ValueError, 1 <= value && value <= kLargestExtent, "config: ", name, " is ", value,
            ", expected an integer from 1 to ", kLargestExtent);
  REQUIRE(ValueError, config.heads % config.kv_heads == 0, "config: num_attention_heads ", config.heads,
          " is no multiple of num_key_value_heads ", config.kv_heads);
  REQUIRE(ValueError, config.head % 2 == 0 && config.head <= kLargestHead, "config: head_dim is ", config.head,
          ", expected an even number up to ", kLargestHead, ": columns rotate in pairs");
  REQUIRE(ValueError, config.eps >= 0, "config: rms_norm_eps is ", config.eps, ", expected 0 or more");
  REQUIRE(
      ValueError,
      config.rope_frequencies.empty() || static_cast<std::int64_t>(config.rope_frequencies.size()) == config.head / 2,
      "config: rope_frequencies has ", config.rope_frequencies.size(), " entries, expected ", config.head / 2,
      " (head_dim / 2)");
  gate_of(config);
}

std::string gate_of(const LlamaConfig& config) {
  if (config.activation == "silu") return "swiglu";
  if (config.activation == "gelu") return "geglu";
  if (config.activation == "gelu_pytorch_tanh") return "geglu_tanh";
  REQUIRE(NotImplementedError, config.activation == "relu", "config: hidden_act ", config.activation,
          " is not run, expected silu, gelu, gelu_pytorch_tanh or relu");
  return "reglu";
}

LlamaConfig parse_llama_config(const std::string& json_text) {
  const json document = json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  REQUIRE(ValueError, document.is_object(), "config: the text is no JSON object, expected the content of config.json");
  const ConfigFields fields(document);
  const Family& family = find_family(fields);
  refuse_what_is_not_run(fields);

  LlamaConfig config;
  read_sizes(fields, config);
  config.eps = fields.number("rms_norm_eps").value_or(1e-6);
  config.tied_head = fields.flag("tie_word_embeddings", false);
  config.qkv_bias = family.always_qkv_bias || fields.flag("attention_bias", false);
  config.qk_norm = family.qk_norm;
  config.mlp_bias = fields.flag("mlp_bias", false);
  config.activation = activation_name(fields);
  require_valid(config);
  read_rope(fields, config);
  return config;
}

}  // namespace coda
