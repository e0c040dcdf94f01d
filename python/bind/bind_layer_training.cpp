// qkv_rope and transformer_layer for training.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "training.h"

namespace coda::python {
namespace {

using namespace nb::literals;

/// What qkv_rope_saved keeps.
struct SavedQkvObject {
  SavedQkv saved;
  Framework framework;
};

struct SavedLayerObject {
  SavedLayer saved;
};

void bind_saved_qkv(nb::module_& m) {
  const auto z_of = [](const std::optional<Tensor>& z, Framework framework) {
    return z ? export_whole(*z, framework) : nb::none();
  };
  nb::class_<SavedQkvObject>(m, "SavedQkv", "The results of qkv_rope_saved and what its backward needs.")
      .def(
          "__init__",
          [](SavedQkvObject* self, const nb::object& q, const nb::object& k, const nb::object& v, const nb::object& qz,
             const nb::object& kz) {
            SavedQkv saved{borrow(q, "SavedQkv", "q"), borrow(k, "SavedQkv", "k"), borrow(v, "SavedQkv", "v"),
                           borrow_optional(qz, "SavedQkv", "qz"), borrow_optional(kz, "SavedQkv", "kz")};
            new (self) SavedQkvObject{std::move(saved), framework_of(q, "SavedQkv")};
          },
          "q"_a, "k"_a, "v"_a, "qz"_a = nb::none(), "kz"_a = nb::none(),
          "From the tensors of one, which must be contiguous; nothing is copied.")
      .def_prop_ro(
          "qz", [z_of](const SavedQkvObject& s) { return z_of(s.saved.qz, s.framework); },
          "(T, heads*head), q before its own norm; None where it has none.")
      .def_prop_ro(
          "kz", [z_of](const SavedQkvObject& s) { return z_of(s.saved.kz, s.framework); },
          "(T, kv_heads*head), k before its own norm; None where it has none.")
      .def_prop_ro(
          "q", [](const SavedQkvObject& s) { return export_whole(s.saved.q, s.framework); },
          "(T, heads*head), rotated.")
      .def_prop_ro(
          "k", [](const SavedQkvObject& s) { return export_whole(s.saved.k, s.framework); },
          "(T, kv_heads*head), rotated.")
      .def_prop_ro(
          "v", [](const SavedQkvObject& s) { return export_whole(s.saved.v, s.framework); }, "(T, kv_heads*head).");
}

void bind_qkv(nb::module_& m) {
  m.def(
      "qkv_rope_saved",
      [](const StreamObject& stream, const NormObject& norm, const nb::object& q, const nb::object& k,
         const nb::object& v, const RopeObject& rope, const nb::object& q_bias, const nb::object& k_bias,
         const nb::object& v_bias, const OptionalNorm& q_norm, const OptionalNorm& k_norm) {
        Arguments args("qkv_rope_saved");
        std::vector<Array> norms;
        const QkvWeights weights = qkv_weights(args, {q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm}, norms);
        const Execution where = stream.execution();
        return SavedQkvObject{
            without_gil(
                [&] { return qkv_rope_saved(stream.stream, norm.norm, weights, rope.rope, rope.tensors, where); }),
            stream.framework};
      },
      "stream"_a, "norm"_a, "q"_a, "k"_a, "v"_a, "rope"_a, nb::kw_only(), "q_bias"_a = nb::none(),
      "k_bias"_a = nb::none(), "v_bias"_a = nb::none(), "q_norm"_a = nb::none(), "k_norm"_a = nb::none(),
      "qkv_rope that keeps what its backward needs.");
  m.def(
      "qkv_rope_backward",
      [](const nb::object& d_q, const nb::object& d_k, const nb::object& d_v, const SavedQkvObject& saved,
         const SavedStreamObject& stream, const NormObject& norm, const nb::object& q, const nb::object& k,
         const nb::object& v, const RopeObject& rope, const nb::object& q_bias, const nb::object& k_bias,
         const nb::object& v_bias, const OptionalNorm& q_norm, const OptionalNorm& k_norm, const nb::object& into) {
        Arguments args("qkv_rope_backward");
        std::vector<Array> norms;
        const TensorView dq = args.required("d_q", d_q), dk = args.required("d_k", d_k), dv = args.required("d_v", d_v);
        const QkvWeights weights = qkv_weights(args, {q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm}, norms);
        const Into main("qkv_rope_backward", into, {"q", "k", "v", "q_bias", "k_bias", "v_bias", "q_norm", "k_norm"});
        const Execution where = stream.execution();
        StreamGradient result = without_gil([&] {
          return qkv_rope_backward(dq, dk, dv, saved.saved, stream.stream, norm.norm, weights, rope.rope, rope.tensors,
                                   main.qkv(), where);
        });
        return StreamGradientObject{std::move(result), args.take(), stream.framework};
      },
      "d_q"_a, "d_k"_a, "d_v"_a, "saved"_a, "stream"_a, "norm"_a, "q"_a, "k"_a, "v"_a, "rope"_a, nb::kw_only(),
      "q_bias"_a = nb::none(), "k_bias"_a = nb::none(), "v_bias"_a = nb::none(), "q_norm"_a = nb::none(),
      "k_norm"_a = nb::none(), "into"_a = nb::none(),
      "Backward of qkv_rope. into: {'q', 'k', 'v': (rows, d), 'q_bias', 'k_bias', 'v_bias': (rows,), 'q_norm', "
      "'k_norm': (head,)}.");
}

LayerGradients layer_gradients(const Into& main) {
  LayerGradients into;
  into.qkv = main.qkv();
  into.mlp = main.mlp();
  into.o = main.of("o");
  into.o_bias = main.of("o_bias");
  into.post_norm = main.of("post_norm");
  into.down = main.of("down");
  into.down_bias = main.of("down_bias");
  into.next_norm = main.of("next_norm");
  return into;
}

/// The shape of a layer as Python spells it.
LayerConfig layer_config(const RopeObject& rope, std::int64_t heads, std::int64_t kv_heads, const std::string& gate) {
  return {.heads = heads, .kv_heads = kv_heads, .head = rope.rope.head, .rope = rope.rope, .gate = gate};
}

void bind_layer_forward(nb::module_& m) {
  nb::class_<SavedLayerObject>(m, "SavedLayer", "What transformer_layer_saved keeps.")
      .def_prop_ro("bytes", [](const SavedLayerObject& s) { return saved_bytes(s.saved); }, "Bytes of what is kept.");
  m.def(
      "transformer_layer_saved",
      [](const StreamObject& stream, const LayerObject& layer, const RopeObject& rope, const NormObject& next_norm,
         std::int64_t heads, std::int64_t kv_heads, const std::string& gate, std::int64_t sequences,
         std::string_view policy) {
        const LayerConfig config = layer_config(rope, heads, kv_heads, gate);
        const LayerTraining training{sequences, to_policy("transformer_layer_saved", policy)};
        const Execution where = stream.execution();
        SavedLayerObject saved;
        NormedStream result = without_gil([&] {
          return transformer_layer_saved(stream.stream, layer.weights, config, rope.tensors, next_norm.norm, training,
                                         saved.saved, where);
        });
        return nb::make_tuple(StreamObject{std::move(result), stream.framework}, std::move(saved));
      },
      "stream"_a, "weights"_a, "rope"_a, "next_norm"_a, nb::kw_only(), "heads"_a, "kv_heads"_a, "gate"_a = "swiglu",
      "sequences"_a = 1, "policy"_a = "fast",
      "transformer_layer over `sequences` sequences of equal length, one behind the other, that keeps what its "
      "backward "
      "needs: the stream and a SavedLayer. policy: 'fast' keeps the MLP's activation, 'lean' makes it again.");
}

void bind_layer_backward(nb::module_& m) {
  m.def(
      "transformer_layer_backward",
      [](const StreamGradientObject& gradient, const SavedStreamObject& output, const SavedLayerObject& saved,
         const LayerObject& layer, const RopeObject& rope, const NormObject& next_norm, std::int64_t heads,
         std::int64_t kv_heads, const std::string& gate, std::int64_t sequences, std::string_view stream_gradient,
         const nb::object& into) {
        const LayerConfig config = layer_config(rope, heads, kv_heads, gate);
        const Into main("transformer_layer_backward", into,
                        {"q", "k", "v", "q_bias", "k_bias", "v_bias", "q_norm", "k_norm", "o", "o_bias", "post_norm",
                         "gate", "up", "gate_bias", "up_bias", "down", "down_bias", "next_norm"});
        const LayerTraining training{
            .sequences = sequences,
            .stream_gradient = to_stream_gradient("transformer_layer_backward", stream_gradient)};
        const Execution where = output.execution();
        StreamGradient result = without_gil([&] {
          return transformer_layer_backward(gradient.gradient, output.stream, saved.saved, layer.weights, config,
                                            rope.tensors, next_norm.norm, training, layer_gradients(main), where);
        });
        return StreamGradientObject{std::move(result), layer.held, output.framework};
      },
      "gradient"_a, "output"_a, "saved"_a, "weights"_a, "rope"_a, "next_norm"_a, nb::kw_only(), "heads"_a, "kv_heads"_a,
      "gate"_a = "swiglu", "sequences"_a = 1, "stream_gradient"_a = "stream", "into"_a = nb::none(),
      "From the gradient by a layer's result, kept as `output`, to that by the stream it began with. stream_gradient: "
      "'stream' rounds the gradient by the residual stream to its dtype, 'f32' takes it along in f32. into: tensors by "
      "the names of LayerWeights, and 'next_norm' for the norm that reads the result; that of input_norm is added by "
      "the backward of what made the stream.");
}

}  // namespace

void bind_layer_training(nb::module_& module) {
  bind_saved_qkv(module);
  bind_qkv(module);
  bind_layer_forward(module);
  bind_layer_backward(module);
}

}  // namespace coda::python
