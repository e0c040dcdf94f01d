// A tiny random LLaMA: its weights, its folder on disk, and its forward in plain double loops.
#pragma once

#include <cmath>
#include <map>
#include <string>

#include "blocks/llama/rope_frequencies.h"
#include "blocks/plain_math.h"
#include "coda/model.h"
#include "support/temporary_folder.h"

namespace coda::testing_support {

struct PlainLlama {
  LlamaConfig config;
  DType dtype = DType::F32;
  std::map<std::string, Plain> weights;  ///< vectors have one row
  std::map<std::string, Tensor> tensors;

  void add(std::mt19937_64& random, const std::string& name, std::int64_t rows, std::int64_t cols, double scale,
           double mean = 0) {
    weights[name] = random_plain(random, rows, cols, dtype, scale, mean);
    update(name);
  }
  /// Makes the tensor of a weight that was changed.
  void update(const std::string& name) {
    const Plain& w = weights.at(name);
    tensors[name] = w.rows == 1 ? w.vector(dtype) : w.tensor(dtype);
  }

  Operands operands() const {
    Operands result;
    for (const auto& [name, tensor] : tensors) result.push_back({name, tensor});
    return result;
  }

  std::string config_json() const {
    const auto flag = [](bool value) { return value ? "true" : "false"; };
    const char* name = config.qk_norm ? "Qwen3ForCausalLM" : "LlamaForCausalLM";
    std::string json = std::string(R"({"architectures":[")") + name + R"("],"vocab_size":)" +
                       std::to_string(config.vocabulary) + R"(,"hidden_size":)" + std::to_string(config.width) +
                       R"(,"intermediate_size":)" + std::to_string(config.mlp_width) + R"(,"num_hidden_layers":)" +
                       std::to_string(config.layers) + R"(,"num_attention_heads":)" + std::to_string(config.heads) +
                       R"(,"num_key_value_heads":)" + std::to_string(config.kv_heads) + R"(,"head_dim":)" +
                       std::to_string(config.head) + R"(,"rms_norm_eps":1e-5,"rope_theta":10000.0)";
    return json + R"(,"tie_word_embeddings":)" + flag(config.tied_head) + R"(,"attention_bias":)" +
           flag(config.qkv_bias) + R"(,"mlp_bias":)" + flag(config.mlp_bias) + "}";
  }

  /// Bytes of a safetensors file with the weights `keep` accepts.
  template <class Keep>
  std::string file_bytes(Keep keep) const {
    std::string header = "{", data;
    for (const auto& [name, tensor] : tensors) {
      if (!keep(name)) continue;
      const TensorView& view = tensor;
      const std::size_t bytes = static_cast<std::size_t>(view.size()) * size_of(dtype);
      header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":")" +
                (dtype == DType::F32    ? "F32"
                 : dtype == DType::BF16 ? "BF16"
                                        : "F16") +
                R"(","shape":)" + shape_text(view.shape()) + R"(,"data_offsets":[)" + std::to_string(data.size()) +
                "," + std::to_string(data.size() + bytes) + "]}";
      data.append(static_cast<const char*>(view.data()), bytes);
    }
    return safetensors_bytes(header + "}", data);
  }
  void write(const TemporaryFolder& folder) const {
    folder.write("config.json", config_json());
    folder.write("model.safetensors", file_bytes([](const std::string&) { return true; }));
  }

  std::optional<Plain> optional(const std::string& name) const {
    const auto found = weights.find(name);
    return found == weights.end() ? std::nullopt : std::optional(found->second);
  }

  /// Hidden states: the embedding, then the output of each layer.
  std::vector<Plain> hidden(const std::vector<std::int64_t>& tokens, const PlainMath& math) const {
    const Plain& table = weights.at("model.embed_tokens.weight");
    Plain x(static_cast<std::int64_t>(tokens.size()), config.width);
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t c = 0; c < x.cols; ++c) x.at(r, c) = table.at(tokens[static_cast<std::size_t>(r)], c);
    std::vector<Plain> all{x};
    for (std::int64_t i = 0; i < config.layers; ++i)
      all.push_back(layer(all.back(), "model.layers." + std::to_string(i) + ".", math));
    return all;
  }

  Plain logits(const std::vector<std::int64_t>& tokens, const PlainMath& math) const {
    const Plain normed = math.rms_norm(hidden(tokens, math).back(), weights.at("model.norm.weight"), config.eps);
    return math.linear(normed, weights.at(config.tied_head ? "model.embed_tokens.weight" : "lm_head.weight"));
  }

 private:
  Plain layer(const Plain& x, const std::string& prefix, const PlainMath& math) const {
    const auto linear = [&](const Plain& in, const std::string& name) {
      return math.linear(in, weights.at(prefix + name + ".weight"), optional(prefix + name + ".bias"));
    };
    const Plain normed = math.rms_norm(x, weights.at(prefix + "input_layernorm.weight"), config.eps);
    const auto rotated = [&](const std::string& name) {
      Plain z = linear(normed, "self_attn." + name + "_proj");
      if (config.qk_norm) {
        Plain heads(z.rows * z.cols / config.head, config.head);
        heads.values = z.values;
        const Plain& gamma = weights.at(prefix + "self_attn." + name + "_norm.weight");
        z.values = math.rms_norm(heads, gamma, config.eps).values;
      }
      return math.rope(z, config.head, base_frequencies(config.rope_theta, config.head));
    };
    const Plain y =
        math.attention(rotated("q"), rotated("k"), linear(normed, "self_attn.v_proj"), config.heads, config.kv_heads);
    const Plain middle = math.add(linear(y, "self_attn.o_proj"), x);
    const Plain mlp_in = math.rms_norm(middle, weights.at(prefix + "post_attention_layernorm.weight"), config.eps);
    const Plain mlp = math.swiglu(linear(mlp_in, "mlp.gate_proj"), linear(mlp_in, "mlp.up_proj"));
    return math.add(linear(mlp, "mlp.down_proj"), middle);
  }
};

struct PlainLlamaOptions {
  bool tied_head = true, bias = false, qk_norm = false;
  DType dtype = DType::F32;
  std::int64_t head = 8;
};

inline PlainLlama random_llama(std::mt19937_64& random, const PlainLlamaOptions& options) {
  PlainLlama model;
  model.dtype = options.dtype;
  LlamaConfig& c = model.config;
  c.vocabulary = 53;
  c.width = 32;
  c.mlp_width = 72;
  c.layers = 3;
  c.heads = 4;
  c.kv_heads = 2;
  c.head = options.head;
  c.eps = 1e-5;
  c.tied_head = options.tied_head;
  c.qkv_bias = c.mlp_bias = options.bias;
  c.qk_norm = options.qk_norm;
  const auto matrix = [&](const std::string& name, std::int64_t out, std::int64_t in, bool bias = false) {
    model.add(random, name + ".weight", out, in, 1 / std::sqrt(static_cast<double>(in)));
    if (bias) model.add(random, name + ".bias", 1, out, 0.3);
  };
  const auto norm = [&](const std::string& name, std::int64_t width) {
    model.add(random, name + ".weight", 1, width, 0.2, 1);
  };
  matrix("model.embed_tokens", c.vocabulary, c.width);
  if (!c.tied_head) matrix("lm_head", c.vocabulary, c.width);
  norm("model.norm", c.width);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    norm(prefix + "input_layernorm", c.width);
    norm(prefix + "post_attention_layernorm", c.width);
    matrix(prefix + "self_attn.q_proj", c.heads * c.head, c.width, options.bias);
    matrix(prefix + "self_attn.k_proj", c.kv_heads * c.head, c.width, options.bias);
    matrix(prefix + "self_attn.v_proj", c.kv_heads * c.head, c.width, options.bias);
    matrix(prefix + "self_attn.o_proj", c.width, c.heads * c.head, options.bias);
    matrix(prefix + "mlp.gate_proj", c.mlp_width, c.width, options.bias);
    matrix(prefix + "mlp.up_proj", c.mlp_width, c.width, options.bias);
    matrix(prefix + "mlp.down_proj", c.width, c.mlp_width, options.bias);
    if (options.qk_norm) {
      norm(prefix + "self_attn.q_norm", c.head);
      norm(prefix + "self_attn.k_norm", c.head);
    }
  }
  return model;
}

}  // namespace coda::testing_support
