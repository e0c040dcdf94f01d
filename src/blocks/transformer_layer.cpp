// A decoder layer: four launches and attention.
#include "blocks/transformer_layer.h"

#include "blocks/qkv_rope.h"
#include "core/check.h"

namespace coda {
namespace {

constexpr std::string_view kCall = "transformer_layer";

void check_config(std::string_view call, const LayerConfig& config) {
  REQUIRE(ValueError, config.heads > 0 && config.kv_heads > 0 && config.head > 0, call, ": config has heads ",
          config.heads, ", kv_heads ", config.kv_heads, ", head ", config.head, ", expected all above 0");
  REQUIRE(ValueError, config.heads % config.kv_heads == 0, call, ": config.heads ", config.heads,
          " is no multiple of config.kv_heads ", config.kv_heads);
  REQUIRE(ValueError, config.rope.head == config.head, call, ": config.rope.head is ", config.rope.head, ", expected ",
          config.head, " (config.head)");
}

void check_weights(const Caller& caller, const LayerWeights& weights, const LayerConfig& config, std::int64_t width) {
  const Extent columns{width, "d, the width of the stream"};
  const Extent queries{config.heads * config.head, "heads·head"};
  const Extent keys{config.kv_heads * config.head, "kv_heads·head"};
  require_shape(caller, "weights.qkv.q", weights.qkv.q, {queries, columns});
  require_shape(caller, "weights.qkv.k", weights.qkv.k, {keys, columns});
  require_shape(caller, "weights.qkv.v", weights.qkv.v, {keys, columns});
  require_shape_if_given(caller, "weights.qkv.q_bias", weights.qkv.q_bias, {queries});
  require_shape_if_given(caller, "weights.qkv.k_bias", weights.qkv.k_bias, {keys});
  require_shape_if_given(caller, "weights.qkv.v_bias", weights.qkv.v_bias, {keys});
  for (const auto* norm : {&weights.qkv.q_norm, &weights.qkv.k_norm})
    if (*norm)
      require_norm(caller, norm == &weights.qkv.q_norm ? "weights.qkv.q_norm" : "weights.qkv.k_norm", **norm,
                   config.head);
  require_shape(caller, "weights.o", weights.o, {columns, queries});
  require_shape(caller, "weights.gate", weights.gate, {{-1, "f"}, columns});
  require_shape(caller, "weights.down", weights.down, {columns, {weights.gate.shape(0), "f, the rows of gate"}});
}

void check_cache(const Caller& caller, const KvCache& cache, const LayerConfig& config, const TensorView& x) {
  const std::int64_t width = config.kv_heads * config.head;
  require_shape(caller, "cache.k", cache.k, {{-1, "capacity"}, {width, "kv_heads·head"}});
  const std::int64_t capacity = cache.k.view().shape(0);
  require_shape(caller, "cache.v", cache.v, {{capacity, "capacity of cache.k"}, {width, "kv_heads·head"}});
  REQUIRE(TypeError, cache.k.view().dtype() == x.dtype() && cache.v.view().dtype() == x.dtype(), kCall,
          ": cache has dtypes ", name_of(cache.k.view().dtype()), " and ", name_of(cache.v.view().dtype()),
          ", expected ", name_of(x.dtype()), ", the stream's");
  REQUIRE(ValueError, 0 <= cache.length && cache.length + x.shape(0) <= capacity, kCall, ": cache of capacity ",
          capacity, " holds ", cache.length, " tokens and gets ", x.shape(0), " more: make it larger");
}

/// Attention's output (T, heads·head); writes behind the filled part of the cache when there is one.
Tensor attended(const Caller& caller, const NormedStream& stream, const LayerWeights& weights,
                const LayerConfig& config, const RopeTensors& rope, const KvCache* cache, const Execution& where) {
  const TensorView& h = stream.h;
  const std::int64_t rows = h.shape(0);
  const auto made = [&](std::int64_t heads) {
    return Tensor::empty({rows, heads * config.head}, h.dtype(), h.device(), where.stream);
  };
  const Tensor q = made(config.heads);
  Tensor own_k, own_v;
  if (cache == nullptr) {
    own_k = made(config.kv_heads);
    own_v = made(config.kv_heads);
  }
  const TensorView all_k = cache ? cache->k.view().slice(0, 0, cache->length + rows) : own_k.view();
  const TensorView all_v = cache ? cache->v.view().slice(0, 0, cache->length + rows) : own_v.view();
  const std::int64_t first = cache ? cache->length : 0;
  qkv_rope_into(caller, stream, weights.input_norm, weights.qkv, config.rope, rope,
                {q, all_k.slice(0, first, first + rows), all_v.slice(0, first, first + rows)}, where);
  return causal_attention(q, all_k, all_v, config.heads, config.kv_heads, 0, where);
}

}  // namespace

void require_layer(const Caller& caller, const LayerWeights& weights, const LayerConfig& config, std::int64_t width) {
  check_config(caller.name, config);
  check_weights(caller, weights, config, width);
}

NormedStream transformer_layer(const NormedStream& stream, const LayerWeights& weights, const LayerConfig& config,
                               const RopeTensors& rope, const RmsNorm& next_norm, KvCache* cache,
                               const Execution& where) {
  const Caller caller = require_stream(kCall, stream);
  require_layer(caller, weights, config, stream.x.view().shape(1));
  if (cache != nullptr && cache->k.view().data() == nullptr) cache = nullptr;
  if (cache != nullptr) check_cache(caller, *cache, config, stream.x);

  const Tensor y = attended(caller, stream, weights, config, rope, cache, where);
  const NormedStream middle = residual_norm(y, weights.o, stream.x, weights.post_norm, weights.o_bias, where);
  const Tensor mlp = gated_mlp(middle, weights.post_norm, weights.gate, weights.up, config.gate, weights.gate_bias,
                               weights.up_bias, where);
  NormedStream result = residual_norm(mlp, weights.down, middle.x, next_norm, weights.down_bias, where);
  if (cache != nullptr) cache->length += stream.x.view().shape(0);
  return result;
}

}  // namespace coda
