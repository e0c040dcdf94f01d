// Continuation of a prompt, one token at a time over a cache of keys and values.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "blocks/copies.h"
#include "blocks/indices.h"
#include "blocks/llama/state.h"
#include "core/check.h"

namespace coda {
namespace {

void check_options(const Caller& caller, const TensorView& prompt, std::int64_t count,
                   const LlamaModel::Sampling& sampling) {
  require_indices(caller, "prompt", prompt);
  REQUIRE(ValueError, prompt.shape(0) > 0, "generate: prompt is empty, expected at least one token");
  REQUIRE(ValueError, count >= 0, "generate: count is ", count, ", expected 0 or more");
  REQUIRE(ValueError, sampling.temperature >= 0 && std::isfinite(sampling.temperature),
          "generate: sampling.temperature is ", sampling.temperature, ", expected 0 (greedy) or above");
  REQUIRE(ValueError, sampling.top_p > 0 && sampling.top_p <= 1, "generate: sampling.top_p is ", sampling.top_p,
          ", expected above 0 and at most 1");
}

/// A cache's keys or values before they are made.
struct CacheShape {
  std::int64_t width = 0;  ///< kv_heads·head
  DType dtype = DType::F32;
  Device device;
};

/// `rows` of a new tensor of `capacity` rows are those of `old`.
Tensor grown(const Tensor& old, std::int64_t rows, std::int64_t capacity, const CacheShape& shape,
             const Execution& where) {
  Tensor tensor = Tensor::empty({capacity, shape.width}, shape.dtype, shape.device, where.stream);
  if (rows > 0) copy_elements(old.view().slice(0, 0, rows), tensor.view().slice(0, 0, rows), where.stream);
  return tensor;
}

/// Makes room for `more` tokens in every cache.
void reserve(std::vector<KvCache>& caches, std::int64_t more, const CacheShape& shape, const Execution& where) {
  for (KvCache& cache : caches) {
    const std::int64_t capacity = cache.length == 0 ? 0 : cache.k.view().shape(0);
    if (cache.length + more <= capacity) continue;
    const std::int64_t larger = std::max(cache.length + more, 2 * capacity) + 64;
    cache.k = grown(cache.k, cache.length, larger, shape, where);
    cache.v = grown(cache.v, cache.length, larger, shape, where);
  }
}

/// The last token of a stream, as a stream.
NormedStream last_row(const NormedStream& stream, const Execution& where) {
  const auto last = [&](const TensorView& view) {
    return Tensor::copy_to(view.slice(0, view.shape(0) - 1, view.shape(0)), view.device(), where.stream);
  };
  return {last(stream.x), last(stream.h), last(stream.sum_sq)};
}

/// exp((logit − largest) / temperature) of each token.
std::vector<double> weights_of(std::span<const float> logits, double temperature) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  std::vector<double> weights;
  for (const float logit : logits) weights.push_back(std::exp((static_cast<double>(logit) - largest) / temperature));
  return weights;
}

/// Tokens from the likeliest on, as few as sum to top_p of all the weight.
std::vector<std::size_t> nucleus(const std::vector<double>& weights, double top_p) {
  std::vector<std::size_t> tokens(weights.size());
  std::iota(tokens.begin(), tokens.end(), std::size_t{0});
  if (top_p == 1) return tokens;
  std::stable_sort(tokens.begin(), tokens.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
  const double enough = top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < tokens.size() && sum < enough) sum += weights[tokens[kept++]];
  tokens.resize(kept);
  return tokens;
}

std::int64_t choose(std::span<const float> logits, const LlamaModel::Sampling& sampling, std::mt19937_64& random) {
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  const bool has_nan = std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  REQUIRE(ValueError, !has_nan && std::isfinite(*likeliest),
          "generate: the logits are NaN or infinite, expected numbers: the weights hold NaN or overflow");
  if (sampling.temperature == 0) return std::distance(logits.begin(), likeliest);
  const std::vector<double> weights = weights_of(logits, sampling.temperature);
  const std::vector<std::size_t> tokens = nucleus(weights, sampling.top_p);
  double total = 0;
  for (const std::size_t token : tokens) total += weights[token];
  const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;  // the same on every platform
  double left = uniform * total;
  for (const std::size_t token : tokens) {
    left -= weights[token];
    if (left < 0) return static_cast<std::int64_t>(token);
  }
  return static_cast<std::int64_t>(tokens.back());
}

}  // namespace

void LlamaModel::generate(const TensorView& prompt, std::int64_t count,
                          const std::function<bool(std::int64_t)>& on_token, const Sampling& sampling,
                          const Execution& where) const {
  check_options(state_->caller("generate"), prompt, count, sampling);
  if (count == 0) return;
  const LlamaConfig& config = state_->config;
  const CacheShape shape{config.kv_heads * config.head, state_->weights.embedding.dtype(), state_->device};
  std::vector<KvCache> caches(static_cast<std::size_t>(config.layers));
  std::mt19937_64 random(sampling.seed);
  reserve(caches, prompt.shape(0), shape, where);
  NormedStream stream = last_row(state_->forward("generate", prompt, where, &caches), where);
  for (std::int64_t made = 1;; ++made) {
    const Tensor logits = on_host(state_->logits(stream, where), where);
    std::int64_t token =
        choose({logits.data<float>(), static_cast<std::size_t>(logits.view().size())}, sampling, random);
    if (!on_token(token) || made == count) return;
    reserve(caches, 1, shape, where);
    stream = state_->forward("generate", TensorView(&token, DType::I64, {1}), where, &caches);
  }
}

}  // namespace coda
