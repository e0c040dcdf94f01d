// Launches: what is fixed about a kind of call, read once, so that a call gives its tensors alone.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "coda/gemm.h"
#include "gemm_call.h"

namespace coda::python {
namespace {

using namespace nb::literals;

using Objects = std::vector<nb::object>;

Factor::View view_of(const std::string& word) {
  return from_word<Factor::View>("Launch", "view", word,
                                 {{"single", Factor::View::Single},
                                  {"pair", Factor::View::Pair},
                                  {"concat", Factor::View::Concat},
                                  {"concat_k", Factor::View::ConcatK}});
}

nb::list run_launch(const LaunchKind& kind, const Objects& a, const Objects& b, const Objects& inputs) {
  const GemmCall call = read_launch(kind, a, b, inputs);
  const Execution where = call.execution();
  {
    const nb::gil_scoped_release release;
    run(call.problem(), kind.backend, where);
  }
  if (call.outputs.size() == 1) return call.outputs[0];
  nb::list all;
  for (const nb::list& of_segment : call.outputs) all.extend(of_segment);
  return all;
}

}  // namespace

void bind_launch(nb::module_& module) {
  nb::class_<LaunchKind>(module, "Launch", "A kind of call of gemm: its views, its programs and its backend.")
      .def(
          "__init__",
          [](LaunchKind* kind, const std::string& a_view, const std::string& b_view, std::vector<Program> programs,
             const std::string& backend) {
            new (kind) LaunchKind{view_of(a_view), view_of(b_view), std::move(programs), backend};
          },
          "a_view"_a, "b_view"_a, "programs"_a, "backend"_a = "")
      .def("run", &run_launch, "a"_a, "b"_a, "inputs"_a,
           "Outputs of all programs, in order, for the matrices of A, those of B, (K, N), and the inputs of all "
           "programs.");
}

}  // namespace coda::python
