// coda_cpp._core: the extension module. Each stage of coda has its own binding file.
#include <nanobind/nanobind.h>

#include "bind.h"
#include "coda/gemm.h"

NB_MODULE(_core, module) {
  namespace nb = nanobind;
  using namespace coda::python;
  module.doc() =
      "The C++ core of coda_cpp: programs, the epilogue library, differentiate, gemm, blocks and the LLaMA model.";
  nb::set_leak_warnings(false);  // Python's caches of programs are alive when the interpreter ends
  bind_errors(module);
  bind_program(module);
  bind_values(module);
  bind_epilogues(module);
  bind_differentiate(module);
  bind_gemm(module);
  bind_launch(module);
  bind_plan(module);
  bind_blocks(module);
  bind_memory(module);
  bind_training(module);
  bind_model(module);
  bind_cli(module);
  module.attr("__version__") = CODA_VERSION;
  module.def("set_num_threads", &coda::set_num_threads, nb::arg("count"),
             "Threads a call may use; 0 asks for CODA_NUM_THREADS, else every core the process may run on.");
  module.def("num_threads", &coda::num_threads, "Threads a call uses.");
}
