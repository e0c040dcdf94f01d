// qkv_rope and transformer_layer, the blocks with many weights.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "bind.h"
#include "blocks.h"

namespace coda::python {
namespace {

using namespace nb::literals;

using epilogues::Rope;

void bind_rope(nb::module_& m) {
  nb::class_<RopeObject>(m, "Rope",
                         "A rotary embedding and its angles: positions (T,), and frequencies (width/2,) or "
                         "base; or cos and sin (T, width/2).")
      .def(
          "__init__",
          [](RopeObject* self, std::int64_t head, std::int64_t width, bool interleaved, double base, double scale,
             const nb::object& positions, const nb::object& frequencies, const nb::object& cos, const nb::object& sin) {
            Arguments args("Rope");
            RopeObject made{
                .rope = {.head = head, .width = width, .interleaved = interleaved, .base = base, .scale = scale},
                .tensors = {},
                .held = {}};
            made.tensors = {args.optional("positions", positions), args.optional("frequencies", frequencies),
                            args.optional("cos", cos), args.optional("sin", sin)};
            if (made.tensors.frequencies) made.rope.angles = Rope::Angles::Frequency;
            if (made.tensors.cos) made.rope.angles = Rope::Angles::Table;
            made.held = args.take();
            new (self) RopeObject(std::move(made));
          },
          "head"_a, nb::kw_only(), "width"_a = 0, "interleaved"_a = false, "base"_a = 10000.0, "scale"_a = 1.0,
          "positions"_a = nb::none(), "frequencies"_a = nb::none(), "cos"_a = nb::none(), "sin"_a = nb::none());
}

void bind_qkv(nb::module_& m) {
  m.def(
      "qkv_rope",
      [](const StreamObject& stream, const NormObject& norm, const nb::object& q, const nb::object& k,
         const nb::object& v, const RopeObject& rope, const nb::object& q_bias, const nb::object& k_bias,
         const nb::object& v_bias, const OptionalNorm& q_norm, const OptionalNorm& k_norm) {
        Arguments args("qkv_rope");
        std::vector<Array> norms;
        const QkvWeights weights = qkv_weights(args, {q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm}, norms);
        const Execution where = stream.execution();
        Qkv result;
        {
          const nb::gil_scoped_release release;
          result = qkv_rope(stream.stream, norm.norm, weights, rope.rope, rope.tensors, where);
        }
        return nb::make_tuple(export_whole(result.q, stream.framework), export_whole(result.k, stream.framework),
                              export_whole(result.v, stream.framework));
      },
      "stream"_a, "norm"_a, "q"_a, "k"_a, "v"_a, "rope"_a, nb::kw_only(), "q_bias"_a = nb::none(),
      "k_bias"_a = nb::none(), "v_bias"_a = nb::none(), "q_norm"_a = nb::none(), "k_norm"_a = nb::none(),
      "Rotated q and k, and v, of norm(x): (T, heads*head) and twice (T, kv_heads*head).");
}

void init_layer(LayerObject* self, const NormObject& input_norm, const nb::object& q, const nb::object& k,
                const nb::object& v, const nb::object& o, const NormObject& post_norm, const nb::object& gate,
                const nb::object& up, const nb::object& down, const nb::object& q_bias, const nb::object& k_bias,
                const nb::object& v_bias, const nb::object& o_bias, const nb::object& gate_bias,
                const nb::object& up_bias, const nb::object& down_bias, const OptionalNorm& q_norm,
                const OptionalNorm& k_norm) {
  Arguments args("LayerWeights");
  std::vector<Array> norms;
  LayerWeights weights;
  weights.input_norm = norm_of(input_norm, norms);
  weights.post_norm = norm_of(post_norm, norms);
  weights.qkv = qkv_weights(args, {q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm}, norms);
  weights.o = args.required("o", o);
  weights.o_bias = args.optional("o_bias", o_bias);
  weights.gate = args.required("gate", gate);
  weights.up = args.required("up", up);
  weights.down = args.required("down", down);
  weights.gate_bias = args.optional("gate_bias", gate_bias);
  weights.up_bias = args.optional("up_bias", up_bias);
  weights.down_bias = args.optional("down_bias", down_bias);
  std::vector<Array> held = args.take();
  held.insert(held.end(), norms.begin(), norms.end());
  new (self) LayerObject{std::move(weights), std::move(held)};
}

void bind_transformer_layer(nb::module_& m) {
  nb::class_<LayerObject>(m, "LayerWeights",
                          "The weights of one decoder layer, each (out, in), under a checkpoint's names.")
      .def("__init__", &init_layer, nb::kw_only(), "input_norm"_a, "q"_a, "k"_a, "v"_a, "o"_a, "post_norm"_a, "gate"_a,
           "up"_a, "down"_a, "q_bias"_a = nb::none(), "k_bias"_a = nb::none(), "v_bias"_a = nb::none(),
           "o_bias"_a = nb::none(), "gate_bias"_a = nb::none(), "up_bias"_a = nb::none(), "down_bias"_a = nb::none(),
           "q_norm"_a = nb::none(), "k_norm"_a = nb::none());
  m.def(
      "transformer_layer",
      [](const StreamObject& stream, const LayerObject& layer, const RopeObject& rope, const NormObject& next_norm,
         std::int64_t heads, std::int64_t kv_heads, const std::string& gate) {
        const LayerConfig config{
            .heads = heads, .kv_heads = kv_heads, .head = rope.rope.head, .rope = rope.rope, .gate = gate};
        const Execution where = stream.execution();
        NormedStream result;
        {
          const nb::gil_scoped_release release;
          result =
              transformer_layer(stream.stream, layer.weights, config, rope.tensors, next_norm.norm, nullptr, where);
        }
        return StreamObject{std::move(result), stream.framework};
      },
      "stream"_a, "weights"_a, "rope"_a, "next_norm"_a, nb::kw_only(), "heads"_a, "kv_heads"_a, "gate"_a = "swiglu",
      "One decoder layer, ending in what the next norm needs.");
}

}  // namespace

void bind_layer(nb::module_& module) {
  bind_rope(module);
  bind_qkv(module);
  bind_transformer_layer(module);
}

}  // namespace coda::python
