// Python's norms and streams: those of coda/blocks.h with the objects that own their memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coda/blocks.h"
#include "torch_view.h"

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

inline nb::object export_whole(const Tensor& tensor, Framework framework) {
  const auto shape = tensor.view().shape();
  return export_tensor(tensor, {shape.begin(), shape.end()}, framework);
}

}  // namespace coda::python
