// What the binding files share: one function each to fill the module, and the words Python uses for coda's enums.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "coda/dtype.h"
#include "coda/program.h"
#include "coda/training.h"
#include "core/check.h"

namespace coda::python {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_program(nb::module_& module);
void bind_values(nb::module_& module);
void bind_epilogues(nb::module_& module);
void bind_differentiate(nb::module_& module);
void bind_gemm(nb::module_& module);
void bind_launch(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_blocks(nb::module_& module);
void bind_layer(nb::module_& module);
void bind_model(nb::module_& module);
void bind_memory(nb::module_& module);
void bind_training(nb::module_& module);
void bind_layer_training(nb::module_& module);
void bind_cli(nb::module_& module);

/// Memory of GPUs comes from these functions of Python from now on: allocate(bytes, index, stream), release(address).
void use_gpu_memory(nb::object allocate, nb::object release);

/// A dtype as people write it: coda_cpp.bf16, "bf16", "bfloat16", torch.bfloat16, numpy.float32, ml_dtypes.bfloat16.
/// Errors: TypeError, beginning with `call`.
DType to_dtype(nb::handle dtype, std::string_view call);
std::optional<DType> to_optional_dtype(nb::handle dtype, std::string_view call);

template <class Enum>
struct Word {
  std::string_view text;
  Enum value;
};

/// The enum value with that word. Errors: ValueError naming call, argument and the known words.
template <class Enum>
Enum from_word(std::string_view call, std::string_view argument, std::string_view got,
               std::initializer_list<Word<Enum>> words) {
  std::string known;
  for (const auto& word : words) {
    if (word.text == got) return word.value;
    known += concat(known.empty() ? "" : ", ", "'", word.text, "'");
  }
  throw ValueError(concat(call, ": ", argument, " is '", got, "', expected one of ", known));
}

inline Reduction to_reduction(std::string_view call, std::string_view word) {
  return from_word<Reduction>(call, "op", word,
                              {{"sum", Reduction::Sum}, {"max", Reduction::Max}, {"lse", Reduction::LogSumExp}});
}
inline Axis to_axis(std::string_view call, std::string_view word) {
  return from_word<Axis>(call, "axis", word, {{"row", Axis::Row}, {"col", Axis::Col}});
}
inline epilogues::NormWeight to_norm_weight(std::string_view call, std::string_view word) {
  using epilogues::NormWeight;
  return from_word<NormWeight>(
      call, "weight", word,
      {{"gamma", NormWeight::Gamma}, {"one_plus_gamma", NormWeight::OnePlusGamma}, {"none", NormWeight::None}});
}
inline LossReduction to_loss_reduction(std::string_view call, std::string_view word) {
  return from_word<LossReduction>(
      call, "reduction", word,
      {{"mean", LossReduction::Mean}, {"sum", LossReduction::Sum}, {"none", LossReduction::None}});
}

inline SavedPolicy to_policy(std::string_view call, std::string_view word) {
  return from_word<SavedPolicy>(call, "policy", word, {{"fast", SavedPolicy::Fast}, {"lean", SavedPolicy::Lean}});
}

inline StreamGradientDType to_stream_gradient(std::string_view call, std::string_view word) {
  return from_word<StreamGradientDType>(call, "stream_gradient", word,
                                        {{"stream", StreamGradientDType::Stream}, {"f32", StreamGradientDType::F32}});
}

}  // namespace coda::python
