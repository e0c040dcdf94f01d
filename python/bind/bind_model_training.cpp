// LlamaModel.loss_and_gradients.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "bind.h"
#include "model.h"

namespace coda::python {
namespace {

using namespace nb::literals;

constexpr std::string_view kCall = "loss_and_gradients";

/// Sequences, (T,) or (B, T), one behind the other.
struct Sequences {
  Array array;
  std::int64_t count = 1;
};

Sequences read_sequences(const char* name, const nb::object& object) {
  Tokens read = read_tokens(kCall, name, object);
  if (read.array.rank() != 2) return {std::move(read.array), 1};
  const std::int64_t count = read.array.shape[0];
  return {join_leading(std::move(read.array), 2, {kCall, concat("argument '", name, "'")}, Access::Read), count};
}

/// The tensors gradients are added to: those given, or new ones.
class MainTensors {
 public:
  MainTensors(const LlamaModel& model, Framework framework) : framework_(framework) {
    for (const NamedTensor& parameter : model.parameters()) parameters_.emplace(parameter.name, parameter.tensor);
  }

  void take(const nb::dict& given) {
    for (const auto& [key, object] : given) add(nb::cast<std::string>(key), nb::borrow(object));
  }

  void make(const std::optional<std::vector<std::string>>& trainable, std::optional<DType> dtype) {
    std::vector<std::string> names = trainable.value_or(std::vector<std::string>{});
    if (!trainable)
      for (const auto& [name, parameter] : parameters_) names.push_back(name);
    for (const std::string& name : names) {
      const auto found = parameters_.find(name);
      REQUIRE(ValueError, found != parameters_.end(), kCall, ": trainable names '", name,
              "', expected names of LlamaModel.parameter_names()");
      REQUIRE(ValueError, !result_.contains(name.c_str()), kCall, ": trainable names '", name,
              "' twice, expected each once");
      const TensorView& like = found->second;
      const DType stored = dtype.value_or(like.dtype());
      if (like.device().kind == DeviceKind::Cuda) {
        add(name, zeros_on_gpu(like, stored));
        continue;
      }
      const Tensor made = like.rank() == 1 ? Tensor::zeros({like.shape(0)}, stored)
                                           : Tensor::zeros({like.shape(0), like.shape(1)}, stored);
      views_.push_back({name, made});
      result_[name.c_str()] = export_whole(made, framework_);
    }
  }

  const Operands& views() const { return views_; }
  const nb::dict& result() const { return result_; }

 private:
  void add(const std::string& name, const nb::object& tensor) {
    held_.push_back(import_array(tensor, {kCall, concat("gradient '", name, "'")}, Access::Write));
    views_.push_back({name, held_.back().view()});
    result_[name.c_str()] = tensor;
  }

  static nb::object zeros_on_gpu(const TensorView& like, DType dtype) {
    const nb::object made = empty_torch({like.shape().begin(), like.shape().end()}, dtype, like.device());
    made.attr("zero_")();
    return made;
  }

  Framework framework_;
  std::map<std::string, TensorView> parameters_;
  std::vector<Array> held_;
  Operands views_;
  nb::dict result_;
};

TrainingOptions options_of(std::string_view reduction, std::int64_t ignore_index, double factor,
                           std::string_view policy, std::string_view stream_gradient, std::int64_t chunk_tokens,
                           std::int64_t sequences) {
  TrainingOptions options;
  options.layers = {.sequences = sequences,
                    .policy = to_policy(kCall, policy),
                    .stream_gradient = to_stream_gradient(kCall, stream_gradient)};
  options.head = {.reduction = to_loss_reduction(kCall, reduction),
                  .ignore_index = ignore_index,
                  .factor = factor,
                  .chunk_tokens = chunk_tokens};
  return options;
}

nb::tuple loss_and_gradients(const ModelObject& self, const nb::object& tokens, const nb::object& targets,
                             const nb::object& gradients, const std::optional<std::vector<std::string>>& trainable,
                             const nb::object& dtype, std::string_view reduction, std::int64_t ignore_index,
                             double factor, std::string_view policy, std::string_view stream_gradient,
                             std::int64_t chunk_tokens) {
  const Sequences read = read_sequences("tokens", tokens), wanted = read_sequences("targets", targets);
  const TrainingOptions options =
      options_of(reduction, ignore_index, factor, policy, stream_gradient, chunk_tokens, read.count);
  REQUIRE(ValueError, gradients.is_none() || (!trainable && dtype.is_none()), kCall, ": gradients and ",
          trainable ? "trainable" : "dtype",
          " are given, expected one of them: the gradients say what is trained and in which dtype");
  MainTensors main(self.model, read.array.framework);
  if (gradients.is_none())
    main.make(trainable, to_optional_dtype(dtype, kCall));
  else
    main.take(nb::cast<nb::dict>(gradients));
  const Execution where = self.execution();
  const auto run = [&] {
    const nb::gil_scoped_release release;
    return self.model.loss_and_gradients(read.array.view(), wanted.array.view(), main.views(), options, where);
  };
  const Loss loss = run();
  return nb::make_tuple(loss, main.result());
}

}  // namespace

void bind_model_training(nb::class_<ModelObject>& model) {
  model
      .def(
          "parameter_names",
          [](const ModelObject& self) {
            std::vector<std::string> names;
            for (const NamedTensor& parameter : self.model.parameters()) names.push_back(parameter.name);
            return names;
          },
          "Names of the model's tensors as the checkpoint has them, a tied head left out: what gradients can be had "
          "of.")
      .def(
          "loss_and_gradients", &loss_and_gradients, "tokens"_a, "targets"_a, "gradients"_a = nb::none(), nb::kw_only(),
          "trainable"_a = nb::none(), "dtype"_a = nb::none(), "reduction"_a = "mean", "ignore_index"_a = -100,
          "factor"_a = 1.0, "policy"_a = "fast", "stream_gradient"_a = "stream", "chunk_tokens"_a = 0,
          "The Loss, its per_token flat, and its gradients in a dict by the checkpoint's names.\n\n"
          "tokens, targets: (T,), or (B, T) for B sequences of equal length that do not see each other.\n"
          "gradients: a dict of tensors they are added to, each of its parameter's shape, in f32 or in its dtype; "
          "what it leaves out is frozen, and no product is run for it. None: new tensors, of all parameters or of "
          "those `trainable` names, in `dtype` or in each parameter's.\n"
          "reduction: 'mean' over the targets that are not ignore_index, or 'sum'. factor: of the gradients, 1/steps "
          "where they are accumulated over steps. policy: 'fast' keeps the MLP's activation, 'lean' makes it again. "
          "stream_gradient: 'stream' rounds the gradient by the residual stream to the stream's dtype at each residual "
          "sum, 'f32' keeps it in f32 from layer to layer. "
          "chunk_tokens: whose logits are in memory at a time, a multiple of 64; 0: about 64 MB of them.\n\n"
          "A model with share=True reads its weights where the caller's optimizer changes them. Two runs give the same "
          "bits. On a GPU the model's weights are bf16 or f16, gradients that are made are on it, and the call waits "
          "for the losses. Raises ValueError, TypeError and IndexError before anything is written; in f16 ValueError "
          "for a stream, and for a factor whose share of a token, that f16 has no numbers for.");
}

}  // namespace coda::python
