// Python's norms and streams: those of coda/blocks.h with the objects that own their memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coda/blocks.h"
#include "torch_tensors.h"

namespace coda::python {

/// An RMSNorm with its weight's owner.
struct NormObject {
  RmsNorm norm;
  Array weight;
};

/// A residual stream and the framework its tensors are handed back in.
struct StreamObject {
  NormedStream stream;
  Framework framework = Framework::Numpy;

  Execution execution() const { return execution_on(stream.x.view().device()); }
};

/// The arguments of one block, by name, and what keeps their memory alive.
class Arguments {
 public:
  explicit Arguments(std::string_view call) : call_(call) {}

  TensorView required(const char* name, const nb::object& object) {
    held_.push_back(import_array(object, {call_, concat("argument '", name, "'")}));
    return held_.back().view();
  }
  std::optional<TensorView> optional(const char* name, const nb::object& object) {
    if (object.is_none()) return {};
    return required(name, object);
  }

  /// Framework of the first tensor, and where work on its device runs.
  Framework framework() const { return held_.empty() ? Framework::Numpy : held_.front().framework; }
  Execution execution() const { return execution_on(held_.empty() ? Device{} : held_.front().device); }

  /// Hands over the objects that own the memory.
  std::vector<Array> take() { return std::move(held_); }

 private:
  std::string_view call_;
  std::vector<Array> held_;
};

/// A rotary embedding with the tensors its angles come from.
struct RopeObject {
  epilogues::Rope rope;
  RopeTensors tensors;
  std::vector<Array> held;
};

/// Weights of a decoder layer with their owners.
struct LayerObject {
  LayerWeights weights;
  std::vector<Array> held;
};

using OptionalNorm = std::optional<NormObject>;

inline std::optional<RmsNorm> norm_of(const OptionalNorm& object, std::vector<Array>& held) {
  if (!object) return {};
  held.push_back(object->weight);
  return object->norm;
}

inline RmsNorm norm_of(const NormObject& object, std::vector<Array>& held) {
  held.push_back(object.weight);
  return object.norm;
}

/// What a caller gives for the projections to q, k and v; biases may be None.
struct QkvObjects {
  const nb::object &q, &k, &v, &q_bias, &k_bias, &v_bias;
  const OptionalNorm &q_norm, &k_norm;
};

inline QkvWeights qkv_weights(Arguments& args, const QkvObjects& given, std::vector<Array>& norms) {
  return {.q = args.required("q", given.q),
          .k = args.required("k", given.k),
          .v = args.required("v", given.v),
          .q_bias = args.optional("q_bias", given.q_bias),
          .k_bias = args.optional("k_bias", given.k_bias),
          .v_bias = args.optional("v_bias", given.v_bias),
          .q_norm = norm_of(given.q_norm, norms),
          .k_norm = norm_of(given.k_norm, norms)};
}

/// A framework's contiguous tensor as one of coda's, without a copy. Errors: ValueError for a strided one.
inline Tensor borrow(const nb::object& object, std::string_view call, const char* name) {
  const Place place{call, concat("argument '", name, "'")};
  auto* const array = new Array(import_array(object, place));
  const std::shared_ptr<void> owner(array, [](void* held) {
    const nb::gil_scoped_acquire acquire;  // a block lets go of it wherever it ends
    delete static_cast<Array*>(held);
  });
  const TensorView view = array->view();
  REQUIRE(ValueError, view.is_contiguous(), place.text(), " of shape ", shape_text(view.shape()), " has strides ",
          shape_text(view.strides()), ", expected contiguous rows: pass tensor.contiguous()");
  return Tensor::borrow(view, owner);
}

inline std::optional<Tensor> borrow_optional(const nb::object& object, std::string_view call, const char* name) {
  if (object.is_none()) return {};
  return borrow(object, call, name);
}

inline Framework framework_of(const nb::object& object, std::string_view call) {
  return import_array(object, {call, "its first argument"}).framework;
}

template <class Run>
auto without_gil(Run run) {
  const nb::gil_scoped_release release;
  return run();
}

inline nb::object export_whole(const Tensor& tensor, Framework framework) {
  const auto shape = tensor.view().shape();
  return export_tensor(tensor, {shape.begin(), shape.end()}, framework);
}

}  // namespace coda::python
