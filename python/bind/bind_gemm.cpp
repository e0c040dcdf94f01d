// gemm and elementwise on tensors of Python frameworks.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "coda/gemm.h"
#include "gemm_call.h"

namespace coda::python {
namespace {

using namespace nb::literals;

nb::list gemm_of_objects(const nb::object& a, const nb::object& b, const SegmentObjects& segments,
                         const std::string& backend) {
  const GemmCall call = read_gemm(a, b, segments);
  const Execution where = call.execution();
  {
    const nb::gil_scoped_release release;
    run(call.problem(), backend, where);
  }
  return call.results();
}

// Columns of the output that an operand of `entries` columns belongs to.
std::int64_t output_columns(const Operand& operand, std::int64_t entries) {
  if (operand.pairing.is_none() || operand.pairing.width < 2) return entries;
  return entries / (operand.pairing.width / 2) * operand.pairing.head;
}

struct Extent {
  std::optional<std::int64_t> rows, cols;
};

// What one operand says about the extents of the output.
Extent extent_told(const Operand& operand, const Array& array, const Extents& batch) {
  Extent told;
  const bool has_cols = operand.shape == Shape::Tile || operand.shape == Shape::Row;
  if (array.shape.empty()) return told;
  if (has_cols && operand.period == 0) told.cols = output_columns(operand, array.shape.back());
  if (operand.shape == Shape::Tile && array.rank() > 1)
    told.rows = product(std::span(array.shape).first(array.shape.size() - 1));
  if (operand.shape == Shape::Col) {
    const bool batched = batch.size() > 1 && array.shape.size() >= batch.size() &&
                         std::equal(batch.begin(), batch.end(), array.shape.begin());
    told.rows = batched ? product(batch) : array.shape[0];
  }
  return told;
}

// Extents, dtype and framework of an elementwise pass: Tiles tell first, then the other operands, in order.
Target elementwise_target(const Given& given, const std::optional<std::pair<std::int64_t, std::int64_t>>& shape) {
  Target target;
  Extent known;
  if (shape) known = {shape->first, shape->second};
  bool framework_known = false, dtype_known = false;
  for (const bool tiles : {true, false}) {
    for (std::size_t i = 0; i < given.arrays.size(); ++i) {
      const Operand& operand = given.program.operand(static_cast<int>(i));
      if (!given.arrays[i] || (operand.shape == Shape::Tile) != tiles) continue;
      const Array& array = *given.arrays[i];
      if (tiles && array.rank() > 2 && target.batch.empty())
        target.batch.assign(array.shape.begin(), array.shape.end() - 1);
      const Extent told = extent_told(operand, array, target.batch);
      if (!known.rows) known.rows = told.rows;
      if (!known.cols) known.cols = told.cols;
      if (!std::exchange(framework_known, true)) {
        target.framework = array.framework;
        target.device = array.device;
      }
      if (!dtype_known && !is_integer(array.dtype)) {
        target.dtype = array.dtype;
        dtype_known = true;
      }
    }
  }
  REQUIRE(ValueError, known.rows && known.cols, "elementwise: no operand of program '", given.program.name(),
          "' tells the number of ", known.rows ? "columns" : "rows", ", expected a tile or shape=(M, N): pass shape");
  target.rows = *known.rows;
  target.cols = *known.cols;
  return target;
}

nb::list elementwise_of_objects(const Program& program, const nb::dict& operands,
                                const std::optional<std::pair<std::int64_t, std::int64_t>>& shape,
                                const std::string& backend) {
  Given given = read_operands("elementwise", program, operands);
  const Target target = elementwise_target(given, shape);
  Ready ready = make_ready("elementwise", std::move(given), target);
  const Execution where = execution_on(target.device);
  {
    const nb::gil_scoped_release release;
    elementwise(target.rows, target.cols, program, ready.operands, backend, where);
  }
  return std::move(ready.outputs);
}

FactorObjects several(Factor::View view, const nb::args& parts) {
  FactorObjects factor{view, {}};
  for (const nb::handle part : parts) factor.parts.push_back(nb::borrow(part));
  return factor;
}

std::string_view view_word(Factor::View view) {
  switch (view) {
    case Factor::View::Single: return "single";
    case Factor::View::Pair: return "pair";
    case Factor::View::Concat: return "concat";
    case Factor::View::ConcatK: return "concat_k";
  }
  INVARIANT(false, "view ", static_cast<int>(view));
}

void bind_factors(nb::module_& module) {
  nb::class_<FactorObjects>(module, "Factor", "Several matrices as one factor: what pair, concat and concat_k make.")
      .def_prop_ro(
          "view", [](const FactorObjects& f) { return view_word(f.view); }, "'pair', 'concat' or 'concat_k'.")
      .def("__len__", [](const FactorObjects& f) { return f.parts.size(); });
  module.def(
      "pair",
      [](const nb::object& first, const nb::object& second) {
        return FactorObjects{Factor::View::Pair, {first, second}};
      },
      "first"_a.none(), "second"_a.none(), "Two (K, N) matrices as B, giving two accumulators: gate and up.");
  module.def(
      "concat", [](const nb::args& parts) { return several(Factor::View::Concat, parts); },
      "Matrices joined along N as B, or along M as A; each has its own program and operands: q, k and v.");
  module.def(
      "concat_k", [](const nb::args& parts) { return several(Factor::View::ConcatK, parts); },
      "Matrices joined along K, A and B alike: their products are summed.");
}

}  // namespace

void bind_gemm(nb::module_& module) {
  bind_factors(module);
  module.def("gemm", &gemm_of_objects, "a"_a.none(), "b"_a.none(), "segments"_a, "backend"_a = "",
             "Outputs of each (program, operands) segment, in program order; coda_cpp.gemm is the interface.");
  module.def("elementwise", &elementwise_of_objects, "program"_a, "operands"_a, "shape"_a = nb::none(),
             "backend"_a = "", "Outputs in program order; coda_cpp.elementwise is the interface.");
  module.def(
      "backend_names",
      [](const std::string& device) {
        const DeviceKind kind = from_word<DeviceKind>("backend_names", "device", device,
                                                      {{"cpu", DeviceKind::Cpu}, {"cuda", DeviceKind::Cuda}});
        const auto names = backend_names(kind);
        return std::vector<std::string>(names.begin(), names.end());
      },
      "device"_a = "cpu",
      "Names of the backends of this build for tensors on 'cpu' or 'cuda', in order of preference.");
}

}  // namespace coda::python
