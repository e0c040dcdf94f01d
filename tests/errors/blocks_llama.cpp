// Every mistake src/blocks/llama refuses, and its text.
#include <gtest/gtest.h>

#include <cmath>

#include "blocks/plain_llama.h"
#include "coda/model.h"
#include "support/error_row.h"

namespace coda {
namespace {

using testing_support::expect_errors;
using testing_support::PlainLlama;
using testing_support::random_llama;
using testing_support::TemporaryFolder;

Tensor zeros(std::initializer_list<std::int64_t> shape, DType dtype = DType::F32) {
  return Tensor::zeros(shape, dtype);
}

std::function<void()> parse(const std::string& text) {
  return [text] { parse_llama_config(text); };
}

std::string config_with(const std::string& more, const std::string& architecture = R"(["LlamaForCausalLM"])") {
  return R"({"architectures":)" + architecture + R"(,"vocab_size":10,"hidden_size":8,"intermediate_size":16,)" +
         R"("num_hidden_layers":1,"num_attention_heads":2,"max_position_embeddings":64,)" + more + "}";
}

std::function<void()> with(const std::string& more) { return parse(config_with(more)); }

TEST(ConfigErrors, Families) {
  const std::string run = "expected LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM or Qwen3ForCausalLM";
  expect_errors({
      {typeid(ValueError), "config: the text is no JSON object, expected the content of config.json", parse("{")},
      {typeid(ValueError), "config: the text is no JSON object, expected the content of config.json", parse("[]")},
      {typeid(ValueError), "config: architectures is [], expected a list of one class name",
       parse(config_with(R"("x":1)", "[]"))},
      {typeid(NotImplementedError), "config: architecture GPT2LMHeadModel is not run, " + run,
       parse(config_with(R"("x":1)", R"(["GPT2LMHeadModel"])"))},
      {typeid(ValueError), "config: architectures and model_type are missing, " + run, parse("{}")},
      {typeid(NotImplementedError), "config: model_type gemma is not run, " + run, parse(R"({"model_type":"gemma"})")},
  });
}

TEST(ConfigErrors, Fields) {
  expect_errors({
      {typeid(ValueError), "config: vocab_size is missing, expected an integer", parse(R"({"model_type":"llama"})")},
      {typeid(ValueError), "config: head_dim is 0, expected an integer from 1 to 2147483648", with(R"("head_dim":0)")},
      {typeid(ValueError), "config: head_dim is \"a\", expected an integer from 1 to 2147483648",
       with(R"("head_dim":"a")")},
      {typeid(ValueError), "config: head_dim is -4, expected an integer from 1 to 2147483648",
       with(R"("head_dim":-4)")},
      {typeid(ValueError), "config: head_dim is 3, expected an even number up to 65536: columns rotate in pairs",
       with(R"("head_dim":3)")},
      {typeid(ValueError), "config: num_attention_heads 2 is no multiple of num_key_value_heads 3",
       with(R"("num_key_value_heads":3)")},
      {typeid(ValueError), "config: hidden_size 9 is no multiple of num_attention_heads 2: give head_dim",
       parse(R"({"model_type":"llama","vocab_size":10,"hidden_size":9,"intermediate_size":4,"num_hidden_layers":1,)"
             R"("num_attention_heads":2})")},
      {typeid(ValueError), "config: rms_norm_eps is -1, expected 0 or more", with(R"("rms_norm_eps":-1.0)")},
      {typeid(ValueError), "config: rms_norm_eps is \"x\", expected a number", with(R"("rms_norm_eps":"x")")},
      {typeid(ValueError), "config: tie_word_embeddings is 1, expected true or false",
       with(R"("tie_word_embeddings":1)")},
      {typeid(ValueError), "config: hidden_act is 1, expected a text", with(R"("hidden_act":1)")},
  });
}

TEST(ConfigErrors, WhatIsNotRun) {
  expect_errors({
      {typeid(NotImplementedError),
       "config: hidden_act mish is not run, expected silu, gelu, gelu_pytorch_tanh or relu",
       with(R"("hidden_act":"mish")")},
      {typeid(NotImplementedError), "config: attention_dropout is not run, expected 0: set it to 0 for inference",
       with(R"("attention_dropout":0.1)")},
      {typeid(NotImplementedError),
       "config: quantization_config is not run, expected unquantised weights: save the model dequantised",
       with(R"("quantization_config":{})")},
      {typeid(NotImplementedError),
       "config: sliding_window is not run, expected null: coda attends to the whole context",
       with(R"("sliding_window":4096)")},
      {typeid(NotImplementedError),
       "config: layer_types has \"sliding_attention\", which is not run, expected full_attention",
       with(R"("layer_types":["full_attention","sliding_attention"])")},
      {typeid(NotImplementedError), "config: partial_rotary_factor other than 1 is not run for this model",
       with(R"("rope_parameters":{"partial_rotary_factor":0.5})")},
      {typeid(NotImplementedError), "config: rope type yarn is not run, expected default, linear or llama3",
       with(R"("rope_scaling":{"type":"yarn"})")},
  });
}

TEST(ConfigErrors, Rope) {
  const std::string rope3 = R"("rope_parameters":{"rope_type":"llama3")";
  expect_errors({
      {typeid(ValueError), "config: rope_scaling is 3, expected an object", with(R"("rope_scaling":3)")},
      {typeid(ValueError), "config: rope_theta is 0, expected a positive number", with(R"("rope_theta":0.0)")},
      {typeid(ValueError), "config: rope_scaling.factor is missing, expected a number",
       with(R"("rope_scaling":{"type":"linear"})")},
      {typeid(ValueError), "config: rope_scaling.factor is 0, expected a positive number",
       with(R"("rope_scaling":{"type":"linear","factor":0.0})")},
      {typeid(ValueError), "config: rope_parameters.high_freq_factor is missing, expected a number",
       with(rope3 + R"(,"factor":8.0,"low_freq_factor":1.0})")},
      {typeid(ValueError),
       "config: llama3 rope has factor 8, low_freq_factor 4, high_freq_factor 4 and original_max_position_embeddings "
       "64, expected positive numbers with low < high",
       with(rope3 + R"(,"factor":8.0,"low_freq_factor":4.0,"high_freq_factor":4.0})")},
  });
}

class ModelErrors : public ::testing::Test {
 protected:
  std::mt19937_64 random_{7};
  PlainLlama plain_ = random_llama(random_, {});
};

TEST_F(ModelErrors, Weights) {
  const auto changed = [&](auto change) {
    return [&, change] {
      PlainLlama copy = plain_;
      change(copy);
      LlamaModel(copy.config, copy.operands());
    };
  };
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  const std::string other = ": config and weights are of different models";
  Operands twice = plain_.operands();
  twice.push_back(twice.front());
  expect_errors({
      {typeid(ValueError),
       "model: tensor '" + q + "' is missing in the given tensors" + other + ", or a shard is missing",
       changed([&](PlainLlama& m) { m.tensors.erase(q); })},
      {typeid(ValueError),
       "model: tensor '" + q + "' in the given tensors has shape [32, 31], expected [32, 32]" + other,
       changed([&](PlainLlama& m) { m.tensors[q] = zeros({32, 31}); })},
      {typeid(TypeError), "model: tensor '" + q + "' in the given tensors is i32, expected f32, bf16 or f16",
       changed([&](PlainLlama& m) { m.tensors[q] = zeros({32, 32}, DType::I32); })},
      {typeid(ValueError),
       "model: tensor 'model.embed_tokens.weight' is f32 and tensor '" + q +
           "' is bf16 in the given tensors, expected one dtype for all matrices: give the dtype to convert to",
       changed([&](PlainLlama& m) { m.tensors[q] = zeros({32, 32}, DType::BF16); })},
      {typeid(ValueError), "model: tensor 'x' in the given tensors belongs to nothing the configuration names" + other,
       changed([&](PlainLlama& m) { m.tensors["x"] = zeros({1}); })},
      {typeid(TypeError),
       "model: the weights in the given tensors are f64, expected f32, bf16 or f16: give the dtype to convert to",
       changed([&](PlainLlama& m) {
         for (auto& [name, tensor] : m.tensors) tensor = Tensor::copy(tensor, DType::F64);
       })},
      {typeid(TypeError), "model: dtype is i64, expected f32, bf16 or f16",
       [&] { LlamaModel(plain_.config, plain_.operands(), DType::I64); }},
      {typeid(ValueError), "model: tensor 'model.embed_tokens.weight' is given twice, expected each name once",
       [&] { LlamaModel(plain_.config, twice); }},
      {typeid(ValueError), "config: num_hidden_layers is 0, expected an integer from 1 to 2147483648",
       changed([](PlainLlama& m) { m.config.layers = 0; })},
      {typeid(ValueError), "config: rope_frequencies has 3 entries, expected 4 (head_dim / 2)",
       changed([](PlainLlama& m) { m.config.rope_frequencies = {1, 2, 3}; })},
  });
}

TEST_F(ModelErrors, DevicesAndFolders) {
  const std::string norm = "model.norm.weight";
  Operands operands = plain_.operands();
  for (NamedTensor& tensor : operands)
    if (tensor.name == norm)
      tensor.tensor = TensorView(tensor.tensor.data(), DType::F32, {32}, Device{DeviceKind::Cuda, 0});
  const TemporaryFolder folder;
  plain_.write(folder);
  const std::string path = folder.path();
  std::filesystem::remove(path + "/config.json");
  expect_errors({
      {typeid(NotImplementedError),
       "model: tensor '" + norm + "' in the given tensors is on cuda:0, expected host memory: copy it first",
       [&] { LlamaModel(plain_.config, operands); }},
      {typeid(NotImplementedError),
       "model: tensor '" + norm + "' in the given tensors is on cuda:0, expected host memory or cuda:1: copy it first",
       [&] { LlamaModel(plain_.config, operands, {}, false, Device{DeviceKind::Cuda, 1}); }},
      {typeid(FileError),
       "open: file '" + path +
           "/config.json' cannot be opened (No such file or directory): check the path and its permissions",
       [&] { LlamaModel::load(path); }},
      {typeid(ValueError),
       "model: tensor 'lm_head.weight' is missing in folder '" + path +
           "': config and weights are of different models, or a shard is missing",
       [&] {
         PlainLlama untied = plain_;
         untied.config.tied_head = false;
         folder.write("config.json", untied.config_json());
         LlamaModel::load(path);
       }},
  });
}

TEST_F(ModelErrors, Calls) {
  const LlamaModel model(plain_.config, plain_.operands());
  std::int64_t tokens[] = {3, 53, 4}, good[] = {1, 2, 3};
  const TensorView bad_view(tokens, DType::I64, {3}), view(good, DType::I64, {3});
  const auto no_token = [](std::int64_t) { return true; };
  const auto generate = [&](const TensorView& prompt, std::int64_t count, LlamaModel::Sampling sampling) {
    return [&, prompt, count, sampling] { model.generate(prompt, count, no_token, sampling); };
  };
  PlainLlama broken = plain_;
  broken.weights.at("model.norm.weight").at(0, 1) = std::nan("");
  broken.update("model.norm.weight");
  const LlamaModel nan_model(broken.config, broken.operands());
  expect_errors({
      {typeid(IndexError), "logits: token 53 in row 1 is outside the vocabulary, expected 0 to 52",
       [&] { model.logits(bad_view); }},
      {typeid(TypeError), "logits: tokens has dtype f32, expected i32 or i64: it holds token numbers",
       [&] { model.logits(zeros({3})); }},
      {typeid(ValueError), "logits: tokens is on cuda:0, expected cpu, the device of the model: copy it there",
       [&] { model.logits(TensorView(good, DType::I64, {3}, Device{DeviceKind::Cuda, 0})); }},
      {typeid(ValueError), "logits: tokens has shape [1, 3], expected [any] (T)",
       [&] { model.logits(view.reshaped({1, 3})); }},
      {typeid(IndexError), "loss: target 53 in row 1 is outside the vocabulary, expected 0 to 52 or ignore_index -100",
       [&] { model.loss(view, bad_view); }},
      {typeid(ValueError), "loss: targets has shape [2], expected [3] (T)",
       [&] { model.loss(view, view.slice(0, 0, 2)); }},
      {typeid(ValueError), "generate: prompt is empty, expected at least one token",
       generate(view.slice(0, 0, 0), 5, {})},
      {typeid(ValueError), "generate: count is -1, expected 0 or more", generate(view, -1, {})},
      {typeid(ValueError), "generate: sampling.temperature is -1, expected 0 (greedy) or above",
       generate(view, 1, {.temperature = -1})},
      {typeid(ValueError), "generate: sampling.top_p is 0, expected above 0 and at most 1",
       generate(view, 1, {.top_p = 0})},
      {typeid(ValueError),
       "generate: the logits are NaN or infinite, expected numbers: the weights hold NaN or overflow",
       [&] { nan_model.generate(view, 1, no_token, {}); }},
  });
}

}  // namespace
}  // namespace coda
