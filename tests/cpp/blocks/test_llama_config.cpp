// config.json of the LLaMA family.
#include <gtest/gtest.h>

#include <cmath>

#include "blocks/llama/rope_frequencies.h"
#include "coda/model.h"

namespace coda {
namespace {

std::string config_text(const std::string& more = "", const std::string& architecture = "LlamaForCausalLM") {
  return R"({"architectures":[")" + architecture + R"("],"vocab_size":1000,"hidden_size":96,"intermediate_size":256,)" +
         R"("num_hidden_layers":3,"num_attention_heads":6)" + (more.empty() ? "" : "," + more) + "}";
}

TEST(LlamaConfig, Defaults) {
  const LlamaConfig config = parse_llama_config(config_text());
  EXPECT_EQ(config.vocabulary, 1000);
  EXPECT_EQ(config.width, 96);
  EXPECT_EQ(config.mlp_width, 256);
  EXPECT_EQ(config.layers, 3);
  EXPECT_EQ(config.heads, 6);
  EXPECT_EQ(config.kv_heads, 6);
  EXPECT_EQ(config.head, 16);
  EXPECT_EQ(config.eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_TRUE(config.rope_frequencies.empty());
  EXPECT_FALSE(config.tied_head || config.qkv_bias || config.mlp_bias || config.qk_norm);
  EXPECT_EQ(config.activation, "silu");
}

TEST(LlamaConfig, EveryField) {
  const LlamaConfig config = parse_llama_config(
      config_text(R"("num_key_value_heads":2,"head_dim":32,"rms_norm_eps":1e-5,"rope_theta":500000.0,)"
                  R"("tie_word_embeddings":true,"attention_bias":true,"mlp_bias":true,"hidden_act":"gelu_new",)"
                  R"("rope_scaling":null,"sliding_window":null,"attention_dropout":0.0,"torch_dtype":"bfloat16")"));
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head, 32);
  EXPECT_EQ(config.eps, 1e-5);
  EXPECT_EQ(config.rope_theta, 500000);
  EXPECT_TRUE(config.tied_head && config.qkv_bias && config.mlp_bias);
  EXPECT_EQ(config.activation, "gelu_pytorch_tanh");
}

TEST(LlamaConfig, Families) {
  EXPECT_FALSE(parse_llama_config(config_text("", "MistralForCausalLM")).qkv_bias);
  EXPECT_TRUE(parse_llama_config(config_text(R"("use_sliding_window":false,"sliding_window":4096)", "Qwen2ForCausalLM"))
                  .qkv_bias);
  EXPECT_TRUE(parse_llama_config(config_text("", "Qwen3ForCausalLM")).qk_norm);
  EXPECT_EQ(parse_llama_config(R"({"model_type":"llama","vocab_size":10,"hidden_size":8,"intermediate_size":4,)"
                               R"("num_hidden_layers":1,"num_attention_heads":2})")
                .head,
            4);
}

TEST(LlamaConfig, RopeOfOldAndNewFiles) {
  const std::string llama3 = R"("factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
                             R"("original_max_position_embeddings":64,"rope_type":"llama3")";
  const LlamaConfig old_file =
      parse_llama_config(config_text(R"("rope_theta":500000.0,"rope_scaling":{)" + llama3 + "}"));
  const LlamaConfig new_file =
      parse_llama_config(config_text(R"("rope_parameters":{"rope_theta":500000.0,)" + llama3 + "}"));
  EXPECT_EQ(old_file.rope_frequencies, new_file.rope_frequencies);
  EXPECT_EQ(new_file.rope_theta, 500000);

  // Wavelengths below 16 stay, above 64 are stretched eightfold, and those between lie between.
  const std::vector<float> plain = base_frequencies(500000, 16);
  ASSERT_EQ(old_file.rope_frequencies.size(), plain.size());
  bool saw_short = false, saw_middle = false, saw_long = false;
  for (std::size_t p = 0; p < plain.size(); ++p) {
    const double wavelength = 2 * M_PI / static_cast<double>(plain[p]);
    const auto got = static_cast<double>(old_file.rope_frequencies[p]), base = static_cast<double>(plain[p]);
    if (wavelength < 16) {
      saw_short = true;
      EXPECT_EQ(got, base);
    } else if (wavelength > 64) {
      saw_long = true;
      EXPECT_NEAR(got, base / 8, 1e-7 * base);
    } else {
      saw_middle = true;
      const double smooth = (64 / wavelength - 1) / 3;
      EXPECT_NEAR(got, (1 - smooth) * base / 8 + smooth * base, 1e-6 * base);
    }
  }
  EXPECT_TRUE(saw_short && saw_middle && saw_long);

  const LlamaConfig linear = parse_llama_config(config_text(R"("rope_scaling":{"type":"linear","factor":4.0})"));
  EXPECT_EQ(linear.rope_frequencies[0], 0.25f);
  EXPECT_TRUE(parse_llama_config(config_text(R"("rope_scaling":{"rope_type":"default"})")).rope_frequencies.empty());
}

// To the bit what torch computes: 1 / base ** (arange(0, 8, 2).float() / 8).
TEST(LlamaConfig, FrequenciesAreThoseOfTransformers) {
  const std::vector<float> expected = {1.0f, 0x1.99999ap-4f, 0x1.47ae14p-7f, 0x1.0624dep-10f};
  EXPECT_EQ(base_frequencies(10000, 8), expected);
}

TEST(RopeTables, AreCosAndSinOfThePosition) {
  const std::vector<float> frequencies = {1.0f, 0.01f};
  const RopeTables tables = rope_tables(frequencies, 1000, 3);
  EXPECT_EQ(tables.cos.view().at(2, 0), static_cast<double>(static_cast<float>(std::cos(1002.0))));
  EXPECT_EQ(tables.sin.view().at(0, 1), static_cast<double>(static_cast<float>(std::sin(static_cast<double>(10.0f)))));
  EXPECT_EQ(rope_tables(frequencies, 5, 0).cos.view().size(), 0);
}

}  // namespace
}  // namespace coda
