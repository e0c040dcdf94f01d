// The weights of a LLaMA model, taken from named tensors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coda/model.h"

namespace coda {

/// Where weights come from. `where` completes "… in <where>" in errors: "folder '/models/x'", "the given tensors".
struct WeightSource {
  std::string where;
  std::vector<std::string> names;
  std::function<TensorView(const std::string& name)> view;  ///< of a name in `names`
};

struct LlamaWeights {
  TensorView embedding;  ///< (V,d)
  TensorView head;       ///< (V,d); the embedding itself when tied
  RmsNorm final_norm;
  std::vector<LayerWeights> layers;
  std::vector<Tensor> owned;  ///< what some of the views above point to
};

enum class Ownership : std::uint8_t { Share, Copy };

/// What becomes of weights once they are taken.
struct Wanted {
  std::optional<DType> dtype;  ///< nothing: as they are
  Ownership ownership = Ownership::Copy;
  Device device;
};

/// Calls visit(name, view) for every tensor of the weights under its name in a checkpoint, the tied head left out.
void for_each_tensor(LlamaWeights& weights, bool tied_head,
                     const std::function<void(const std::string& name, TensorView& view)>& visit);

/// Where a layer's names begin: "model.layers.3."
std::string layer_prefix(std::int64_t layer);

/// Takes the weights `config` asks for and refuses missing and superfluous ones; then converts and copies what is not
/// as wanted. Errors: ValueError, TypeError, NotImplementedError, all before anything is converted.
LlamaWeights take_weights(const LlamaConfig& config, const WeightSource& source, const Wanted& wanted,
                          const Execution& where);

}  // namespace coda
