#include "blocks/llama/weights.h"

#include <algorithm>
#include <unordered_set>

#include "blocks/arguments.h"
#include "blocks/copies.h"
#include "core/check.h"
#include "cpu/threads.h"

namespace coda {
namespace {

bool is_model_dtype(DType dtype) { return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16; }

/// Hands out the tensors of a source by name, once checked, and remembers which were taken.
class Taker {
 public:
  Taker(const WeightSource& source, Device device)
      : source_(source), device_(device), names_(source.names.begin(), source.names.end()) {}

  bool has(const std::string& name) const { return names_.contains(name); }

  TensorView vector(const std::string& name, std::int64_t size) {
    const TensorView view = take(name);
    require_extents(name, view, {size});
    return view;
  }

  /// All matrices must have one dtype: it is that of the hidden states.
  TensorView matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const TensorView view = take(name);
    require_extents(name, view, {rows, cols});
    if (matrix_name_.empty()) {
      matrix_name_ = name;
      matrix_dtype_ = view.dtype();
    }
    mixed_ = mixed_.empty() && view.dtype() != matrix_dtype_ ? name : mixed_;
    return view;
  }

  /// Errors: ValueError for matrices of several dtypes.
  void refuse_mixed_dtypes() {
    REQUIRE(ValueError, mixed_.empty(), "model: tensor '", matrix_name_, "' is ", name_of(matrix_dtype_),
            " and tensor '", mixed_, "' is ", mixed_.empty() ? "" : name_of(source_.view(mixed_).dtype()), " in ",
            source_.where, ", expected one dtype for all matrices: give the dtype to convert to");
  }

  /// Errors: ValueError for a tensor nobody took: the configuration does not describe this checkpoint.
  void refuse_superfluous(bool tied_head) {
    for (const std::string& name : source_.names) {
      const bool recomputed = name.ends_with("rotary_emb.inv_freq") || (tied_head && name == "lm_head.weight");
      REQUIRE(ValueError, recomputed || taken_.contains(name), "model: tensor '", name, "' in ", source_.where,
              " belongs to nothing the configuration names: config and weights are of different models");
    }
  }

 private:
  TensorView take(const std::string& name) {
    REQUIRE(ValueError, has(name), "model: tensor '", name, "' is missing in ", source_.where,
            ": config and weights are of different models, or a shard is missing");
    taken_.insert(name);
    const TensorView view = source_.view(name);
    REQUIRE(TypeError, is_model_dtype(view.dtype()) || view.dtype() == DType::F64, "model: tensor '", name, "' in ",
            source_.where, " is ", name_of(view.dtype()), ", expected f32, bf16 or f16");
    REQUIRE(NotImplementedError, view.device().kind == DeviceKind::Cpu || view.device() == device_, "model: tensor '",
            name, "' in ", source_.where, " is on ", device_text(view.device()), ", expected host memory",
            device_.kind == DeviceKind::Cpu ? "" : concat(" or ", device_text(device_)), ": copy it first");
    return view;
  }

  void require_extents(const std::string& name, const TensorView& view, std::initializer_list<std::int64_t> extents) {
    REQUIRE(ValueError, std::equal(extents.begin(), extents.end(), view.shape().begin(), view.shape().end()),
            "model: tensor '", name, "' in ", source_.where, " has shape ", shape_text(view.shape()), ", expected ",
            shape_text(extents), ": config and weights are of different models");
  }

  const WeightSource& source_;
  const Device device_;
  std::unordered_set<std::string> names_, taken_;
  std::string matrix_name_, mixed_;
  DType matrix_dtype_ = DType::F32;
};

LayerWeights take_layer(const LlamaConfig& config, Taker& taker, const std::string& prefix) {
  const std::int64_t d = config.width, f = config.mlp_width;
  const std::int64_t queries = config.heads * config.head, keys = config.kv_heads * config.head;
  const auto norm = [&](const std::string& name, std::int64_t width) {
    return RmsNorm{taker.vector(prefix + name + ".weight", width), config.eps, epilogues::NormWeight::Gamma};
  };
  const auto matrix = [&](const std::string& name, std::int64_t rows, std::int64_t cols) {
    return taker.matrix(prefix + name + ".weight", rows, cols);
  };
  const auto bias = [&](const std::string& name, std::int64_t size) {
    return taker.vector(prefix + name + ".bias", size);
  };
  LayerWeights layer;
  layer.input_norm = norm("input_layernorm", d);
  layer.post_norm = norm("post_attention_layernorm", d);
  layer.qkv.q = matrix("self_attn.q_proj", queries, d);
  layer.qkv.k = matrix("self_attn.k_proj", keys, d);
  layer.qkv.v = matrix("self_attn.v_proj", keys, d);
  layer.o = matrix("self_attn.o_proj", d, queries);
  layer.gate = matrix("mlp.gate_proj", f, d);
  layer.up = matrix("mlp.up_proj", f, d);
  layer.down = matrix("mlp.down_proj", d, f);
  if (config.qkv_bias) {
    layer.qkv.q_bias = bias("self_attn.q_proj", queries);
    layer.qkv.k_bias = bias("self_attn.k_proj", keys);
    layer.qkv.v_bias = bias("self_attn.v_proj", keys);
    if (taker.has(prefix + "self_attn.o_proj.bias")) layer.o_bias = bias("self_attn.o_proj", d);
  }
  if (config.qk_norm) {
    layer.qkv.q_norm = norm("self_attn.q_norm", config.head);
    layer.qkv.k_norm = norm("self_attn.k_norm", config.head);
  }
  if (config.mlp_bias) {
    layer.gate_bias = bias("mlp.gate_proj", f);
    layer.up_bias = bias("mlp.up_proj", f);
    layer.down_bias = bias("mlp.down_proj", d);
  }
  return layer;
}

/// A contiguous copy in `dtype` of a view in host memory, made by all threads.
Tensor converted_on_host(const TensorView& view, DType dtype) {
  if (view.rank() != 2) return Tensor::copy(view, dtype);
  Tensor copy = Tensor::empty(view.shape(), dtype);
  const std::int64_t cols = view.shape(1);
  cpu::parallel_for(view.shape(0), [&](int, std::int64_t row) {
    const char* source =
        static_cast<const char*>(view.data()) + row * view.stride(0) * static_cast<std::int64_t>(size_of(view.dtype()));
    for (std::int64_t col = 0; col < cols; ++col)
      store_element(dtype, copy.view().data(), row * cols + col,
                    load_element(view.dtype(), source, col * view.stride(1)));
  });
  return copy;
}

/// A vector as a matrix of one row; a matrix as it is.
TensorView as_matrix(const TensorView& view) {
  if (view.rank() == 2) return view;
  const std::int64_t shape[] = {1, view.shape(0)}, strides[] = {0, view.stride(0)};
  return {view.data(), view.dtype(), shape, strides, view.device()};
}

/// A contiguous copy on `device`, in `dtype`.
Tensor converted(const TensorView& view, DType dtype, Device device, const Execution& where) {
  if (view.device().kind != DeviceKind::Cpu) return copied(as_matrix(view), dtype, where);
  if (device.kind == DeviceKind::Cpu) return converted_on_host(view, dtype);
  if (view.dtype() == dtype && view.is_contiguous()) return Tensor::copy_to(view, device, where.stream);
  return Tensor::copy_to(converted_on_host(view, dtype), device, where.stream);
}

}  // namespace

std::string layer_prefix(std::int64_t layer) { return concat("model.layers.", layer, "."); }

void for_each_tensor(LlamaWeights& weights, bool tied_head,
                     const std::function<void(const std::string& name, TensorView& view)>& visit) {
  visit("model.embed_tokens.weight", weights.embedding);
  if (!tied_head) visit("lm_head.weight", weights.head);
  visit("model.norm.weight", weights.final_norm.weight);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    LayerWeights& layer = weights.layers[i];
    const std::string prefix = layer_prefix(static_cast<std::int64_t>(i));
    const auto projection = [&](const char* name, TensorView& weight, std::optional<TensorView>& bias) {
      visit(concat(prefix, name, ".weight"), weight);
      if (bias) visit(concat(prefix, name, ".bias"), *bias);
    };
    const auto head_norm = [&](const char* name, std::optional<RmsNorm>& norm) {
      if (norm) visit(concat(prefix, name, ".weight"), norm->weight);
    };
    visit(prefix + "input_layernorm.weight", layer.input_norm.weight);
    projection("self_attn.q_proj", layer.qkv.q, layer.qkv.q_bias);
    projection("self_attn.k_proj", layer.qkv.k, layer.qkv.k_bias);
    projection("self_attn.v_proj", layer.qkv.v, layer.qkv.v_bias);
    head_norm("self_attn.q_norm", layer.qkv.q_norm);
    head_norm("self_attn.k_norm", layer.qkv.k_norm);
    projection("self_attn.o_proj", layer.o, layer.o_bias);
    visit(prefix + "post_attention_layernorm.weight", layer.post_norm.weight);
    projection("mlp.gate_proj", layer.gate, layer.gate_bias);
    projection("mlp.up_proj", layer.up, layer.up_bias);
    projection("mlp.down_proj", layer.down, layer.down_bias);
  }
}

LlamaWeights take_weights(const LlamaConfig& config, const WeightSource& source, const Wanted& wanted,
                          const Execution& where) {
  const std::optional<DType> dtype = wanted.dtype;
  REQUIRE(TypeError, !dtype || is_model_dtype(*dtype), "model: dtype is ", name_of(dtype.value_or(DType::F32)),
          ", expected f32, bf16 or f16");
  Taker taker(source, wanted.device);
  LlamaWeights weights;
  weights.embedding = taker.matrix("model.embed_tokens.weight", config.vocabulary, config.width);
  if (!config.tied_head) weights.head = taker.matrix("lm_head.weight", config.vocabulary, config.width);
  weights.final_norm = {taker.vector("model.norm.weight", config.width), config.eps, epilogues::NormWeight::Gamma};
  for (std::int64_t i = 0; i < config.layers; ++i) weights.layers.push_back(take_layer(config, taker, layer_prefix(i)));
  taker.refuse_superfluous(config.tied_head);
  if (!dtype) taker.refuse_mixed_dtypes();
  REQUIRE(TypeError, dtype || is_model_dtype(weights.embedding.dtype()), "model: the weights in ", source.where,
          " are f64, expected f32, bf16 or f16: give the dtype to convert to");

  for_each_tensor(weights, config.tied_head, [&](const std::string&, TensorView& view) {
    const DType to = dtype.value_or(view.dtype());
    const bool fits = to == view.dtype() && wanted.device == view.device();
    if (fits && wanted.ownership == Ownership::Share) return;
    weights.owned.push_back(converted(view, to, wanted.device, where));
    const TensorView& made = weights.owned.back();
    view = view.rank() == 1 ? made.reshaped({view.shape(0)}) : made;
  });
  if (config.tied_head) weights.head = weights.embedding;
  return weights;
}

}  // namespace coda
