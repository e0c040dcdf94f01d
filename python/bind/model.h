// LlamaModel and the tokens it is given, in Python.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "arrays.h"
#include "blocks.h"
#include "coda/model.h"

namespace coda::python {

/// A model and, when it shares its weights, the tensors that own them.
struct ModelObject {
  LlamaModel model;
  std::vector<Array> held;

  Execution execution() const { return execution_on(model.device()); }
};

/// Token numbers: a tensor, or a list of ints.
struct Tokens {
  Array array;
  TensorView view;
};

inline Tokens read_tokens(std::string_view call, const char* name, const nb::object& object) {
  nb::object tensor = object;
  if (nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object)) {
    const auto numbers = nb::cast<std::vector<std::int64_t>>(object);
    const Tensor made = Tensor::empty({static_cast<std::int64_t>(numbers.size())}, DType::I64);
    std::copy(numbers.begin(), numbers.end(), made.data<std::int64_t>());
    tensor = export_whole(made, Framework::Numpy);
  }
  Tokens tokens{import_array(tensor, {call, concat("argument '", name, "'")}), {}};
  tokens.view = tokens.array.view();
  return tokens;
}

/// loss_and_gradients.
void bind_model_training(nb::class_<ModelObject>& model);

}  // namespace coda::python
