// The blocks for training, which coda_cpp/training.py gathers; those of many weights are in bind_layer_training.cpp.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "blocks/partials.h"
#include "training.h"

namespace coda::python {
namespace {

using namespace nb::literals;

void bind_fresh(nb::module_& m) {
  nb::class_<FreshObject>(
      m, "Fresh",
      "A tensor given as a main gradient whose content the gradient takes the place of: memory that "
      "was never written will do.")
      .def(nb::init<nb::object>(), "tensor"_a)
      .def_ro("tensor", &FreshObject::tensor);
}

void bind_streams(nb::module_& m) {
  nb::class_<SavedStreamObject>(m, "SavedStream", "What a backward keeps of a NormedStream.")
      .def(
          "__init__",
          [](SavedStreamObject* self, const nb::object& x, const nb::object& sum_sq) {
            new (self) SavedStreamObject{{borrow(x, "SavedStream", "x"), borrow(sum_sq, "SavedStream", "sum_sq")},
                                         framework_of(x, "SavedStream")};
          },
          "x"_a, "sum_sq"_a, "From the tensors of one, which must be contiguous; nothing is copied.")
      .def_prop_ro(
          "x", [](const SavedStreamObject& s) { return export_whole(s.stream.x, s.framework); },
          "(T, d), the residual stream.")
      .def_prop_ro(
          "sum_sq", [](const SavedStreamObject& s) { return export_whole(s.stream.sum_sq, s.framework); },
          "(T, partials) f32, partial sums of x^2.");
  nb::class_<StreamGradientObject>(m, "StreamGradient",
                                   "The gradient of a loss by a NormedStream, from the block that read the stream to "
                                   "the one that made it; stream_backward takes the product with the weights.")
      .def(
          "add_residual",
          [](StreamGradientObject& self, const nb::object& d_x) {
            REQUIRE(ValueError, !self.gradient.d_x,
                    "add_residual: there is a residual gradient already, expected one: add them first");
            self.gradient.d_x = borrow(d_x, "add_residual", "d_x");
          },
          "d_x"_a,
          "Takes along what reaches x past the norm, (T, d), contiguous: the gradient by the next residual sum, in the "
          "stream's dtype or f32.");
  m.def("partial_width", &partial_width_for, "columns"_a,
        "Columns that each partial sum of x^2 of a stream covers: at most 64 of them in a row, which a load finishes.");
  m.def("partial_count", &partial_count_for, "columns"_a,
        "How many partial sums of x^2 a stream of that many columns has in a row.");
  m.def(
      "saved_stream",
      [](const StreamObject& stream, std::string_view policy) {
        const SavedPolicy kept = to_policy("saved_stream", policy);
        const Execution where = stream.execution();
        return SavedStreamObject{without_gil([&] { return saved_stream(stream.stream, kept, where); }),
                                 stream.framework};
      },
      "stream"_a, "policy"_a = "fast",
      "What a backward needs of a stream. policy: 'fast' keeps all partial sums of x^2, 'lean' one number a token.");
}

void bind_stream_backward(nb::module_& m) {
  m.def(
      "stream_backward",
      [](const StreamGradientObject& gradient, const SavedStreamObject& stream, const NormObject& norm,
         std::string_view stream_gradient, const nb::object& into) {
        const Into main("stream_backward", into, {"norm_weight", "bias"});
        const StreamGradientDType dtype = to_stream_gradient("stream_backward", stream_gradient);
        const Execution where = stream.execution();
        const StreamBackward result = without_gil([&] {
          return stream_backward(gradient.gradient, stream.stream, norm.norm, {main.of("norm_weight"), main.of("bias")},
                                 dtype, where);
        });
        const nb::object d_x = export_whole(result.d_x, stream.framework);
        if (dtype == StreamGradientDType::Stream) return d_x;
        return nb::object(nb::make_tuple(d_x, export_whole(result.residual, stream.framework)));
      },
      "gradient"_a, "stream"_a, "norm"_a, nb::kw_only(), "stream_gradient"_a = "stream", "into"_a = nb::none(),
      "The gradient (T, d) by x of a stream, in its dtype: by both terms of residual_norm's sum, or by enter_norm's "
      "argument.\n"
      "stream_gradient: 'f32' gives a pair, that gradient and the same in f32, which add_residual takes along.\n"
      "into: {'norm_weight': (d,), 'bias': (d,)}, tensors the gradients by parameters are added to.");
}

void bind_linear(nb::module_& m) {
  m.def(
      "linear_backward",
      [](const nb::object& d_out, const nb::object& weight) {
        Arguments args("linear_backward");
        const TensorView d = args.required("d_out", d_out), w = args.required("weight", weight);
        const Execution where = args.execution();
        return export_whole(without_gil([&] { return linear_backward(d, w, where); }), args.framework());
      },
      "d_out"_a, "weight"_a, "d_out @ weight, the gradient (T, k) by y of y @ weight.T.");
  m.def(
      "add_weight_gradient",
      [](const nb::object& d_out, const nb::object& y, const nb::object& into) {
        Arguments args("add_weight_gradient");
        const TensorView d = args.required("d_out", d_out), right = args.required("y", y);
        const MainObject main(into, {"add_weight_gradient", "argument 'into'"});
        const Execution where = args.execution();
        without_gil([&] {
          add_weight_gradient(d, right, main.main(), where);
          return 0;
        });
      },
      "d_out"_a, "y"_a, "into"_a, "into (n, k) += d_out.T @ y, the gradient by W of y @ W.T; into may be a Fresh.");
}

void bind_norm_linear(nb::module_& m) {
  m.def(
      "norm_linear_backward",
      [](const nb::object& d_out, const nb::object& out, const SavedStreamObject& stream, const NormObject& norm,
         const nb::object& weight, const nb::object& bias, const nb::object& into) {
        Arguments args("norm_linear_backward");
        const TensorView d = args.required("d_out", d_out), o = args.required("out", out),
                         w = args.required("weight", weight);
        const auto b = args.optional("bias", bias);
        const Into main("norm_linear_backward", into, {"weight", "bias"});
        const Execution where = stream.execution();
        StreamGradient result = without_gil([&] {
          return norm_linear_backward(d, o, stream.stream, norm.norm, w, b, {main.of("weight"), main.of("bias")},
                                      where);
        });
        return StreamGradientObject{std::move(result), args.take(), stream.framework};
      },
      "d_out"_a, "out"_a, "stream"_a, "norm"_a, "weight"_a, "bias"_a = nb::none(), nb::kw_only(), "into"_a = nb::none(),
      "Backward of norm_linear. d_out, out: (T, n). into: {'weight': (n, d), 'bias': (n,)}.");
}

MlpWeights mlp_weights(Arguments& args, const nb::object& gate, const nb::object& up, const std::string& activation,
                       const nb::object& gate_bias, const nb::object& up_bias) {
  return {args.required("gate_weight", gate), args.required("up_weight", up), args.optional("gate_bias", gate_bias),
          args.optional("up_bias", up_bias), activation};
}

/// What gated_mlp_saved keeps.
struct GatedMlpObject {
  GatedMlp saved;
  Framework framework;
};

void bind_gated_mlp(nb::module_& m) {
  nb::class_<GatedMlpObject>(m, "GatedMlp", "The result of gated_mlp_saved and what its backward needs.")
      .def(
          "__init__",
          [](GatedMlpObject* self, const nb::object& gate, const nb::object& up, const nb::object& y) {
            GatedMlp saved{borrow_optional(y, "GatedMlp", "y").value_or(Tensor()), borrow(gate, "GatedMlp", "gate"),
                           borrow(up, "GatedMlp", "up")};
            new (self) GatedMlpObject{std::move(saved), framework_of(gate, "GatedMlp")};
          },
          "gate"_a, "up"_a, "y"_a = nb::none(),
          "From the tensors of one, which must be contiguous; nothing is copied. Without y, a backward makes it again.")
      .def_prop_ro(
          "y",
          [](const GatedMlpObject& g) {
            return g.saved.y.view().rank() == 0 ? nb::none() : export_whole(g.saved.y, g.framework);
          },
          "(T, f), the result.")
      .def_prop_ro(
          "gate", [](const GatedMlpObject& g) { return export_whole(g.saved.gate, g.framework); },
          "(T, f), what the activation was applied to.")
      .def_prop_ro(
          "up", [](const GatedMlpObject& g) { return export_whole(g.saved.up, g.framework); },
          "(T, f), what it was multiplied by.");
  m.def(
      "gated_mlp_saved",
      [](const StreamObject& stream, const NormObject& norm, const nb::object& gate_weight, const nb::object& up_weight,
         const std::string& gate, const nb::object& gate_bias, const nb::object& up_bias) {
        Arguments args("gated_mlp_saved");
        const MlpWeights weights = mlp_weights(args, gate_weight, up_weight, gate, gate_bias, up_bias);
        const Execution where = stream.execution();
        return GatedMlpObject{without_gil([&] { return gated_mlp_saved(stream.stream, norm.norm, weights, where); }),
                              stream.framework};
      },
      "stream"_a, "norm"_a, "gate_weight"_a, "up_weight"_a, "gate"_a = "swiglu", "gate_bias"_a = nb::none(),
      "up_bias"_a = nb::none(), "gated_mlp that keeps what its backward needs.");
  m.def(
      "gated_mlp_backward",
      [](const nb::object& d_out, const nb::object& down, const GatedMlpObject& saved, const SavedStreamObject& stream,
         const NormObject& norm, const nb::object& gate_weight, const nb::object& up_weight, const std::string& gate,
         const nb::object& gate_bias, const nb::object& up_bias, bool remake_y, const nb::object& into) {
        Arguments args("gated_mlp_backward");
        const TensorView d = args.required("d_out", d_out), right = args.required("down", down);
        const MlpWeights weights = mlp_weights(args, gate_weight, up_weight, gate, gate_bias, up_bias);
        const Into main("gated_mlp_backward", into, {"gate", "up", "gate_bias", "up_bias"});
        GatedMlp kept = saved.saved;
        if (remake_y) kept.y = {};
        const Execution where = stream.execution();
        GatedMlpBackward result = without_gil(
            [&] { return gated_mlp_backward(d, right, kept, stream.stream, norm.norm, weights, main.mlp(), where); });
        return nb::make_tuple(StreamGradientObject{std::move(result.stream), args.take(), stream.framework},
                              export_whole(result.y, stream.framework));
      },
      "d_out"_a, "down"_a, "saved"_a, "stream"_a, "norm"_a, "gate_weight"_a, "up_weight"_a, "gate"_a = "swiglu",
      "gate_bias"_a = nb::none(), "up_bias"_a = nb::none(), nb::kw_only(), "remake_y"_a = false, "into"_a = nb::none(),
      "Backward of gated_mlp with y @ down.T behind it, of which d_out (T, n) is the gradient: the StreamGradient, and "
      "y "
      "(T, f), kept or made again.\n"
      "into: {'gate', 'up': (f, d), 'gate_bias', 'up_bias': (f,)}. The gradient by down is d_out.T @ y.");
}

/// What causal_attention_saved keeps.
struct AttentionObject {
  SavedAttention saved;
  Framework framework;
};

void bind_attention(nb::module_& m) {
  nb::class_<AttentionObject>(m, "SavedAttention", "The result of causal_attention_saved and what its backward needs.")
      .def_prop_ro(
          "out", [](const AttentionObject& a) { return export_whole(a.saved.out, a.framework); },
          "(T, heads*head), the result.")
      .def_prop_ro(
          "lse", [](const AttentionObject& a) { return export_whole(a.saved.lse, a.framework); },
          "(T, heads) f32, log-sum-exp of the scaled scores.");
  m.def(
      "causal_attention_saved",
      [](const nb::object& q, const nb::object& k, const nb::object& v, std::int64_t heads, std::int64_t kv_heads,
         std::int64_t sequences, double scale) {
        Arguments args("causal_attention_saved");
        const TensorView queries = args.required("q", q), keys = args.required("k", k), values = args.required("v", v);
        const Execution where = args.execution();
        return AttentionObject{without_gil([&] {
                                 return causal_attention_saved(queries, keys, values,
                                                               {heads, kv_heads, sequences, scale}, where);
                               }),
                               args.framework()};
      },
      "q"_a, "k"_a, "v"_a, nb::kw_only(), "heads"_a, "kv_heads"_a, "sequences"_a = 1, "scale"_a = 0.0,
      "causal_attention over `sequences` sequences of equal length, one behind the other, that keeps what its backward "
      "needs. q: (T, heads*head); k, v: (T, kv_heads*head).");
  m.def(
      "causal_attention_backward",
      [](const nb::object& d_out, const nb::object& q, const nb::object& k, const nb::object& v,
         const AttentionObject& saved, std::int64_t heads, std::int64_t kv_heads, std::int64_t sequences,
         double scale) {
        Arguments args("causal_attention_backward");
        const TensorView d = args.required("d_out", d_out), queries = args.required("q", q),
                         keys = args.required("k", k), values = args.required("v", v);
        const Execution where = args.execution();
        const Qkv result = without_gil([&] {
          return causal_attention_backward(d, queries, keys, values, saved.saved, {heads, kv_heads, sequences, scale},
                                           where);
        });
        return nb::make_tuple(export_whole(result.q, saved.framework), export_whole(result.k, saved.framework),
                              export_whole(result.v, saved.framework));
      },
      "d_out"_a, "q"_a, "k"_a, "v"_a, "saved"_a, nb::kw_only(), "heads"_a, "kv_heads"_a, "sequences"_a = 1,
      "scale"_a = 0.0, "The gradients by q, k and v. d_out: (T, heads*head).");
}

void bind_head(nb::module_& m) {
  m.def(
      "lm_head_loss_backward",
      [](const StreamObject& stream, const NormObject& norm, const nb::object& weight, const nb::object& targets,
         std::string_view reduction, std::int64_t ignore_index, double factor, std::int64_t chunk_tokens,
         const nb::object& into) {
        Arguments args("lm_head_loss_backward");
        const TensorView w = args.required("weight", weight), t = args.required("targets", targets);
        const HeadOptions options{to_loss_reduction("lm_head_loss_backward", reduction), ignore_index, factor,
                                  chunk_tokens};
        const Into main("lm_head_loss_backward", into, {"weight"});
        const Execution where = stream.execution();
        HeadBackward result = without_gil(
            [&] { return lm_head_loss_backward(stream.stream, norm.norm, w, t, options, main.of("weight"), where); });
        return nb::make_tuple(result.loss,
                              StreamGradientObject{std::move(result.stream), args.take(), stream.framework});
      },
      "stream"_a, "norm"_a, "weight"_a, "targets"_a, "reduction"_a = "mean", "ignore_index"_a = -100, nb::kw_only(),
      "factor"_a = 1.0, "chunk_tokens"_a = 0, "into"_a = nb::none(),
      "lm_head_loss and its backward at once, over chunks of tokens: the Loss and the StreamGradient. factor: of the "
      "gradients; chunk_tokens: whose logits are in memory at a time, a multiple of 64, 0 for about 64 MB of them; "
      "into: {'weight': (V, d)}. Raises ValueError in f16 for a factor whose share of a token is below f16's normal "
      "numbers.");
}

}  // namespace

void bind_training(nb::module_& module) {
  bind_fresh(module);
  bind_streams(module);
  bind_stream_backward(module);
  bind_linear(module);
  bind_norm_linear(module);
  bind_gated_mlp(module);
  bind_attention(module);
  bind_head(module);
  bind_layer_training(module);
}

}  // namespace coda::python
