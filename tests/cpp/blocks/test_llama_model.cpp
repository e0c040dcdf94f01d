// A tiny random model through every path of LlamaModel, against plain double loops.
#include <gtest/gtest.h>

#include <cmath>

#include "blocks/plain_llama.h"
#include "coda/model.h"

namespace coda {
namespace {

using testing_support::cross_entropy;
using testing_support::difference;
using testing_support::expect_close;
using testing_support::expect_twice_stock;
using testing_support::Plain;
using testing_support::plain;
using testing_support::PlainLlama;
using testing_support::PlainLlamaOptions;
using testing_support::PlainMath;
using testing_support::random_llama;
using testing_support::TemporaryFolder;

class LlamaModelTest : public ::testing::Test {
 protected:
  void SetUp() override { std::cout << "seed " << seed_ << "\n"; }

  std::vector<std::int64_t> random_tokens(std::int64_t count) {
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int64_t>(random_() % 53));
    return tokens;
  }
  static TensorView view(const std::vector<std::int64_t>& tokens) {
    return {const_cast<std::int64_t*>(tokens.data()), DType::I64, {static_cast<std::int64_t>(tokens.size())}};
  }
  static std::vector<std::int64_t> generated(const LlamaModel& model, const std::vector<std::int64_t>& prompt,
                                             std::int64_t count, const LlamaModel::Sampling& sampling = {}) {
    std::vector<std::int64_t> tokens;
    model.generate(
        view(prompt), count,
        [&](std::int64_t token) {
          tokens.push_back(token);
          return true;
        },
        sampling);
    return tokens;
  }

  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

const PlainLlamaOptions kModels[] = {
    {},
    {.tied_head = false, .bias = true},
    {.qk_norm = true, .head = 16},
    {.dtype = DType::BF16},
    {.tied_head = false, .bias = true, .qk_norm = true, .dtype = DType::BF16},
    {.dtype = DType::F16},
};

TEST_F(LlamaModelTest, EveryPathEqualsPlainLoops) {
  for (const PlainLlamaOptions& options : kModels) {
    const PlainLlama reference = random_llama(random_, options);
    const TemporaryFolder folder;
    reference.write(folder);
    const LlamaModel model = LlamaModel::load(folder.path());
    const PlainMath stock{options.dtype};
    const auto expect = [&](const TensorView& got, const Plain& truth, const Plain& rounded) {
      if (options.dtype == DType::F32) return expect_close(got, truth, 2e-5);
      expect_twice_stock(got, truth, rounded);
    };
    for (const std::int64_t count : {1, 7, 40}) {
      SCOPED_TRACE(count);
      const std::vector<std::int64_t> tokens = random_tokens(count), targets = random_tokens(count);
      const Plain truth = reference.logits(tokens, {}), rounded = reference.logits(tokens, stock);
      const Tensor logits = model.logits(view(tokens));
      EXPECT_EQ(logits.view().dtype(), DType::F32);
      expect(logits, truth, rounded);

      const Loss loss = model.loss(view(tokens), view(targets), LossReduction::None);
      // A loss moves by at most twice what a logit moves.
      double logit_error = options.dtype == DType::F32 ? 2e-5 : 0;
      for (const double error : difference(rounded, truth).values)
        logit_error = std::max(logit_error, 2 * std::abs(error));
      for (std::int64_t r = 0; r < count; ++r)
        EXPECT_NEAR(loss.per_token.data<float>()[r], cross_entropy(truth, r, targets[static_cast<std::size_t>(r)]),
                    2 * logit_error);

      const std::vector<Plain> hidden = reference.hidden(tokens, {}), hidden_rounded = reference.hidden(tokens, stock);
      std::int64_t next = 0;
      model.observe_layers(view(tokens), [&](std::int64_t index, const TensorView& x) {
        EXPECT_EQ(index, next++);
        expect(x, hidden[static_cast<std::size_t>(index)], hidden_rounded[static_cast<std::size_t>(index)]);
      });
      EXPECT_EQ(next, 4);
    }
  }
}

TEST_F(LlamaModelTest, NoTokens) {
  const PlainLlama reference = random_llama(random_, {});
  const LlamaModel model(reference.config, reference.operands());
  EXPECT_EQ(shape_text(model.logits(view({})).view().shape()), "[0, 53]");
  EXPECT_TRUE(std::isnan(model.loss(view({}), view({})).value));
}

TEST_F(LlamaModelTest, SharedCopiedAndShardedWeightsAreTheSame) {
  const PlainLlama reference = random_llama(random_, {.tied_head = false});
  const std::vector<std::int64_t> tokens = random_tokens(9);
  const TemporaryFolder whole, shards;
  reference.write(whole);
  const Plain expected = plain(LlamaModel::load(whole.path()).logits(view(tokens)));

  shards.write("config.json", reference.config_json());
  const auto in_first = [](const std::string& name) { return name.find("layers.0") != std::string::npos; };
  shards.write("a.safetensors", reference.file_bytes(in_first));
  shards.write("b.safetensors", reference.file_bytes([&](const std::string& name) { return !in_first(name); }));
  std::string map;
  for (const auto& [name, tensor] : reference.tensors)
    map += (map.empty() ? "\"" : ",\"") + name + "\":\"" + (in_first(name) ? "a" : "b") + ".safetensors\"";
  shards.write("model.safetensors.index.json", R"({"weight_map":{)" + map + "}}");

  EXPECT_EQ(plain(LlamaModel::load(shards.path()).logits(view(tokens))).values, expected.values);
  for (const bool share : {false, true}) {
    const LlamaModel model(reference.config, reference.operands(), {}, share);
    EXPECT_EQ(plain(model.logits(view(tokens))).values, expected.values);
  }
  const std::vector<std::int32_t> narrow(tokens.begin(), tokens.end());
  const TensorView narrow_view(const_cast<std::int32_t*>(narrow.data()), DType::I32, {9});
  EXPECT_EQ(plain(LlamaModel::load(whole.path()).logits(narrow_view)).values, expected.values);
}

TEST_F(LlamaModelTest, ConvertsWeights) {
  const PlainLlama reference = random_llama(random_, {});
  PlainLlama rounded = reference;
  rounded.dtype = DType::BF16;
  for (auto& [name, weight] : rounded.weights) {
    weight = PlainMath{DType::BF16}.stored(weight);
    rounded.update(name);
  }
  const std::vector<std::int64_t> tokens = random_tokens(12);
  const Plain expected = plain(LlamaModel(rounded.config, rounded.operands()).logits(view(tokens)));
  const TemporaryFolder folder;
  reference.write(folder);
  EXPECT_EQ(plain(LlamaModel::load(folder.path(), DType::BF16).logits(view(tokens))).values, expected.values);
  // And wider: bf16 weights in f32 compute in f32.
  expect_close(LlamaModel(rounded.config, rounded.operands(), DType::F32).logits(view(tokens)),
               rounded.logits(tokens, {}), 2e-5);
}

TEST_F(LlamaModelTest, GenerateEqualsRecomputation) {
  for (const PlainLlamaOptions& options : {PlainLlamaOptions{}, PlainLlamaOptions{.bias = true, .qk_norm = true}}) {
    const PlainLlama reference = random_llama(random_, options);
    const LlamaModel model(reference.config, reference.operands());
    for (const std::int64_t count : {1, 6}) {
      std::vector<std::int64_t> tokens = random_tokens(count);
      const std::vector<std::int64_t> got = generated(model, tokens, count == 1 ? 70 : 20);
      for (const std::int64_t token : got) {
        const Plain logits = reference.logits(tokens, {});
        double best = -INFINITY;
        for (std::int64_t c = 0; c < logits.cols; ++c) best = std::max(best, logits.at(logits.rows - 1, c));
        EXPECT_GE(logits.at(logits.rows - 1, token), best - 1e-4);
        tokens.push_back(token);
      }
    }
  }
}

TEST_F(LlamaModelTest, GenerateStopsAndSamples) {
  const PlainLlama reference = random_llama(random_, {});
  const LlamaModel model(reference.config, reference.operands());
  const std::vector<std::int64_t> prompt = random_tokens(5);
  int calls = 0;
  model.generate(view(prompt), 10, [&](std::int64_t) { return ++calls < 3; }, {});
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(generated(model, prompt, 0).empty());
  EXPECT_EQ(generated(model, prompt, 150).size(), 150u);  // caches grow on the way
  calls = 0;
  model.generate(view(prompt), std::int64_t{1} << 60, [&](std::int64_t) { return ++calls < 3; }, {});
  EXPECT_EQ(calls, 3) << "a count without end is no reason to reserve memory";

  const std::vector<std::int64_t> greedy = generated(model, prompt, 10);
  EXPECT_EQ(generated(model, prompt, 10, {.temperature = 0.7, .top_p = 1e-9, .seed = 4}), greedy);
  EXPECT_EQ(generated(model, prompt, 10, {.temperature = 1e-9, .seed = 4}), greedy);
  const LlamaModel::Sampling sampling{.temperature = 1.5, .top_p = 0.9, .seed = 11};
  EXPECT_EQ(generated(model, prompt, 30, sampling), generated(model, prompt, 30, sampling));
  EXPECT_NE(generated(model, prompt, 30, sampling), generated(model, prompt, 30, {1.5, 0.9, 12}));
}

// Sampled frequencies of the first token follow softmax(logits / temperature), and top_p leaves out the unlikely.
TEST_F(LlamaModelTest, SamplingFollowsTheDistribution) {
  const PlainLlama reference = random_llama(random_, {});
  const LlamaModel model(reference.config, reference.operands());
  const std::vector<std::int64_t> prompt = random_tokens(1);
  const Plain logits = reference.logits(prompt, {});
  std::vector<double> p(53);
  double total = 0;
  for (std::int64_t c = 0; c < 53; ++c) total += p[static_cast<std::size_t>(c)] = std::exp(logits.at(0, c) / 0.8);
  constexpr int kDraws = 1000;
  std::vector<int> counts(53), nucleus(53);
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(generated(model, prompt, 1, {0.8, 1, seed_ + static_cast<unsigned>(i)})[0])];
    ++nucleus[static_cast<std::size_t>(generated(model, prompt, 1, {0.8, 0.5, seed_ + static_cast<unsigned>(i)})[0])];
  }
  double above = 0;  // probability of the tokens likelier than the one at hand
  for (std::size_t c = 0; c < 53; ++c) {
    const double expected = p[c] / total;
    EXPECT_NEAR(counts[c] / static_cast<double>(kDraws), expected, 6 * std::sqrt(expected / kDraws) + 1e-3);
    above = 0;
    for (std::size_t other = 0; other < 53; ++other) above += p[other] > p[c] ? p[other] / total : 0;
    if (above > 0.5 + 1e-6) {
      EXPECT_EQ(nucleus[c], 0) << "token " << c << " is outside the nucleus";
    }
  }
}

// A NaN in a value weight of layer 1 reaches all later rows through attention; one in the head, its own column alone.
TEST_F(LlamaModelTest, NanReachesOnlyItsOutputs) {
  PlainLlama reference = random_llama(random_, {.tied_head = false});
  reference.weights.at("lm_head.weight").at(20, 3) = std::nan("");
  reference.update("lm_head.weight");
  const std::vector<std::int64_t> tokens = random_tokens(10);
  const Plain logits = plain(LlamaModel(reference.config, reference.operands()).logits(view(tokens)));
  for (std::int64_t r = 0; r < 10; ++r)
    for (std::int64_t c = 0; c < 53; ++c) EXPECT_EQ(std::isnan(logits.at(r, c)), c == 20);
}

// A NaN in the embedding of one token reaches the rows from that token on and none before.
TEST_F(LlamaModelTest, NanTokenReachesOnlyLaterRows) {
  PlainLlama reference = random_llama(random_, {.tied_head = false});
  reference.weights.at("model.embed_tokens.weight").at(7, 3) = std::nan("");
  reference.update("model.embed_tokens.weight");
  const std::vector<std::int64_t> tokens = {1, 2, 3, 4, 7, 5, 6};
  const Plain logits = plain(LlamaModel(reference.config, reference.operands()).logits(view(tokens)));
  for (std::int64_t r = 0; r < logits.rows; ++r)
    for (std::int64_t c = 0; c < 53; ++c) EXPECT_EQ(std::isnan(logits.at(r, c)), r >= 4) << r << ", " << c;
}

}  // namespace
}  // namespace coda
