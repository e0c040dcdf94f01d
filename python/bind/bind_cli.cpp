// The program `coda` as a function of the extension.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "bind.h"
#include "cli/program.h"

namespace coda::python {
namespace {

using Row = std::tuple<std::string, bool, std::string, std::string>;

int program(std::vector<std::string> arguments, const std::vector<Row>& host) {
  std::vector<Diagnosis> rows;
  for (const auto& [what, good, found, cure] : host) rows.push_back({what, good, found, cure});
  return cli::run(std::move(arguments), rows);
}

}  // namespace

void bind_cli(nb::module_& module) {
  module.def("_program", &program, nb::arg("arguments"), nb::arg("host"), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace coda::python
