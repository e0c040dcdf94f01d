// LlamaConfig and LlamaModel.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "blocks.h"
#include "model.h"

namespace coda::python {
namespace {

using namespace nb::literals;

/// "cpu", "cuda", "cuda:1", or a torch.device.
Device to_device(const nb::object& device, std::string_view call) {
  const std::string text = nb::cast<std::string>(nb::str(device));
  if (text == "cpu") return {};
  if (text == "cuda") return {DeviceKind::Cuda, 0};
  const bool digits =
      text.size() > 5 && text.size() < 9 && text.find_first_not_of("0123456789", 5) == std::string::npos;
  REQUIRE(ValueError, text.starts_with("cuda:") && digits, call, ": device is '", text,
          "', expected 'cpu', 'cuda' or 'cuda:N'");
  return {DeviceKind::Cuda, std::stoi(text.substr(5))};
}

void bind_config(nb::module_& m) {
  nb::class_<LlamaConfig>(m, "LlamaConfig", "What config.json says of a LLaMA-family model.")
      .def_static("parse", &parse_llama_config, "json"_a,
                  "Reads the text of a config.json. Raises ValueError naming field and cure, NotImplementedError for a "
                  "model coda does not run.")
      .def_ro("vocabulary", &LlamaConfig::vocabulary)
      .def_ro("width", &LlamaConfig::width)
      .def_ro("mlp_width", &LlamaConfig::mlp_width)
      .def_ro("layers", &LlamaConfig::layers)
      .def_ro("heads", &LlamaConfig::heads)
      .def_ro("kv_heads", &LlamaConfig::kv_heads)
      .def_ro("head", &LlamaConfig::head)
      .def_ro("eps", &LlamaConfig::eps)
      .def_ro("rope_theta", &LlamaConfig::rope_theta)
      .def_ro("tied_head", &LlamaConfig::tied_head)
      .def_ro("activation", &LlamaConfig::activation);
}

LlamaConfig read_config(const nb::object& config) {
  if (nb::isinstance<LlamaConfig>(config)) return nb::cast<LlamaConfig>(config);
  if (nb::isinstance<nb::str>(config)) return parse_llama_config(nb::cast<std::string>(config));
  REQUIRE(TypeError, nb::isinstance<nb::dict>(config), "LlamaModel: argument 'config' is a ",
          nb::cast<std::string>(config.type().attr("__name__")),
          ", expected a LlamaConfig, the text of a config.json, or a dict of its fields");
  return parse_llama_config(nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(config)));
}

void init_model(ModelObject* self, const nb::object& config, const nb::dict& tensors, const nb::object& dtype,
                bool share, const nb::object& device) {
  std::vector<Array> held;
  Operands named;
  for (const auto& [key, object] : tensors) {
    const auto name = nb::cast<std::string>(key);
    held.push_back(import_array(object, {"LlamaModel", concat("tensor '", name, "'")}));
    named.push_back({name, held.back().view()});
  }
  const LlamaConfig parsed = read_config(config);
  const std::optional<DType> to = to_optional_dtype(dtype, "LlamaModel");
  const Device on = to_device(device, "LlamaModel");
  const bool on_gpu = !held.empty() && held.front().device.kind == DeviceKind::Cuda;  // else torch may know no GPU
  const Execution where = on_gpu ? execution_on(on) : Execution{};
  const auto make = [&] {
    const nb::gil_scoped_release release;
    return LlamaModel(parsed, named, to, share, on, where);
  };
  LlamaModel model = make();
  if (!share) held.clear();
  new (self) ModelObject{std::move(model), std::move(held)};
}

nb::object logits(const ModelObject& self, const nb::object& tokens) {
  const Tokens read = read_tokens("logits", "tokens", tokens);
  const Execution where = self.execution();
  Tensor result;
  {
    const nb::gil_scoped_release release;
    result = self.model.logits(read.view, where);
  }
  return export_whole(result, read.array.framework);
}

Loss loss(const ModelObject& self, const nb::object& tokens, const nb::object& targets, std::string_view reduction,
          std::int64_t ignore_index) {
  const Tokens read = read_tokens("loss", "tokens", tokens), wanted = read_tokens("loss", "targets", targets);
  const LossReduction by = to_loss_reduction("loss", reduction);
  const Execution where = self.execution();
  const nb::gil_scoped_release release;
  return self.model.loss(read.view, wanted.view, by, ignore_index, where);
}

void observe_layers(const ModelObject& self, const nb::object& tokens, const nb::object& observer) {
  const Tokens read = read_tokens("observe_layers", "tokens", tokens);
  const Execution where = self.execution();
  const auto hand_over = [&](std::int64_t index, const TensorView& hidden) {
    const Tensor copy = Tensor::copy_to(hidden, hidden.device(), where.stream);
    const nb::gil_scoped_acquire acquire;
    observer(index, export_whole(copy, read.array.framework));
  };
  const nb::gil_scoped_release release;
  self.model.observe_layers(read.view, hand_over, where);
}

std::vector<std::int64_t> generate(const ModelObject& self, const nb::object& prompt, std::int64_t count,
                                   const nb::object& on_token, double temperature, double top_p, std::uint64_t seed) {
  const Tokens read = read_tokens("generate", "prompt", prompt);
  std::vector<std::int64_t> made;
  const auto take = [&](std::int64_t token) {
    const nb::gil_scoped_acquire acquire;
    made.push_back(token);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();  // Ctrl-C between two tokens
    return on_token.is_none() || on_token(token).ptr() != Py_False;
  };
  const Execution where = self.execution();
  const nb::gil_scoped_release release;
  self.model.generate(read.view, count, take, {temperature, top_p, seed}, where);
  return made;
}

void bind_llama(nb::module_& m) {
  nb::class_<ModelObject> model(m, "LlamaModel", "A LLaMA-family model. tokens: (T,) i32 or i64, or a list of ints.");
  model
      .def("__init__", &init_model, "config"_a, "tensors"_a, "dtype"_a = nb::none(), "share"_a = false,
           "device"_a = "cpu",
           "From a checkpoint's tensors by name. config: a LlamaConfig, the text of a config.json, or its dict; dtype: "
           "convert weights to it; share: use the tensors' memory instead of a copy; device: where it runs, 'cpu', "
           "'cuda' or 'cuda:N'.")
      .def_static(
          "load",
          [](const nb::object& folder, const nb::object& dtype, const nb::object& device) {
            const auto path = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(folder));
            const std::optional<DType> to = to_optional_dtype(dtype, "LlamaModel.load");
            const Device on = to_device(device, "LlamaModel.load");
            const nb::gil_scoped_release release;
            return ModelObject{LlamaModel::load(path, to, on), {}};
          },
          "folder"_a, "dtype"_a = nb::none(), "device"_a = "cpu",
          "Reads a folder with config.json and safetensors. Raises OSError and ValueError; nothing is half-loaded.")
      .def_prop_ro("config", [](const ModelObject& self) { return self.model.config(); })
      .def_prop_ro(
          "device", [](const ModelObject& self) { return device_text(self.model.device()); },
          "Where it runs: 'cpu', 'cuda:0'.")
      .def("logits", &logits, "tokens"_a,
           "(T, V) f32 logits of one sequence, on the model's device. Raises IndexError for a token outside [0, V).")
      .def("loss", &loss, "tokens"_a, "targets"_a, "reduction"_a = "mean", "ignore_index"_a = -100,
           "Cross entropy of predicting targets[t] from tokens[0..t]; the logits are never stored. Raises ValueError "
           "for a loss that f16 has no number for.")
      .def("observe_layers", &observe_layers, "tokens"_a, "observer"_a,
           "Calls observer(index, hidden) with the (T, d) state: index 0 is the embedding, then after each layer.")
      .def("generate", &generate, "prompt"_a, "count"_a, "on_token"_a = nb::none(), nb::kw_only(),
           "temperature"_a = 0.0, "top_p"_a = 1.0, "seed"_a = 0,
           "The next `count` tokens, greedy at temperature 0. Calls on_token(token) for each; it may return False to "
           "stop, and what it raises is raised here.");
  bind_model_training(model);
}

}  // namespace

void bind_model(nb::module_& module) {
  bind_config(module);
  bind_llama(module);
}

}  // namespace coda::python
