// The arguments of gemm as Python gives them, bound to a call of the core.
#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "call.h"
#include "coda/backend.h"
#include "coda/problem.h"

namespace coda::python {

/// A factor of several matrices, as pair, concat and concat_k make it.
struct FactorObjects {
  Factor::View view = Factor::View::Single;
  std::vector<nb::object> parts;
};

using SegmentObjects = std::vector<std::pair<Program, nb::dict>>;

/// A call with its tensors, its outputs by segment, and what keeps both alive.
struct GemmCall {
  Factor a{}, b{};
  std::vector<Segment> segments{};
  std::vector<nb::list> outputs{};  ///< of each segment, in program order
  Device device{};
  std::vector<Array> held{};

  /// The core's problem. Errors: as bind.
  Problem problem() const { return coda::bind("gemm", a, b, segments); }

  /// Where it runs: torch's current stream on a GPU.
  Execution execution() const;

  nb::list results() const;
};

/// A kind of call: what is fixed about those that differ in their tensors alone.
struct LaunchKind {
  Factor::View a = Factor::View::Single, b = Factor::View::Single;
  std::vector<Program> programs;  ///< of each segment
  std::string backend;
};

/// Reads the tensors of such a call and makes its outputs. inputs: of all programs, in order. Errors: as read_inputs.
GemmCall read_launch(const LaunchKind& kind, std::vector<nb::object> a, std::vector<nb::object> b,
                     std::span<const nb::object> inputs);

/// Reads the arguments and makes the outputs that are not given. Errors: as import_array.
GemmCall read_gemm(const nb::object& a, const nb::object& b, const SegmentObjects& segments);

}  // namespace coda::python
