#include "gemm_call.h"

namespace coda::python {
namespace {

/// A factor with the arrays that keep its memory alive.
struct HeldFactor {
  Factor factor;
  std::vector<Array> arrays;
  Extents batch;  ///< leading dimensions of A's rows, when there are several
};

FactorObjects objects_of(const nb::object& object) {
  return nb::isinstance<FactorObjects>(object) ? nb::cast<FactorObjects>(object)
                                               : FactorObjects{Factor::View::Single, {object}};
}

HeldFactor read_factor(const FactorObjects& objects, const std::string& name, bool batched) {
  HeldFactor held;
  held.factor.view = objects.view;
  for (std::size_t i = 0; i < objects.parts.size(); ++i) {
    const Place place{"gemm", objects.parts.size() == 1 ? name : concat(name, " part ", i)};
    Array array = import_array(objects.parts[i], place);
    if (batched && array.rank() > 2) {
      const bool whole = objects.view != Factor::View::Concat;  // a concat of A has no batch of its own
      if (i == 0 && whole) held.batch.assign(array.shape.begin(), array.shape.end() - 1);
      array = join_leading(std::move(array), array.rank() - 1, place, Access::Read);
    }
    held.factor.parts.push_back(array.view());
    held.arrays.push_back(std::move(array));
  }
  return held;
}

// Rows of A or columns of B in segment `i`; 0 when the matrix has another rank, which bind refuses.
std::int64_t extent_of(const Factor& factor, int axis, std::size_t i) {
  const std::size_t part = factor.view == Factor::View::Concat ? i : 0;
  if (part >= factor.parts.size() || factor.parts[part].rank() != 2) return 0;
  return factor.parts[part].shape(axis);
}

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  for (T& item : from) to.push_back(std::move(item));
}

// A call whose segments `given_of` reads.
template <class GivenOf>
GemmCall read_call(const FactorObjects& a, const FactorObjects& b, std::size_t segments, const GivenOf& given_of) {
  HeldFactor left = read_factor(a, "A", true), right = read_factor(b, "B", false);
  GemmCall call{.a = std::move(left.factor), .b = std::move(right.factor)};
  Target target{.batch = std::move(left.batch)};
  if (!left.arrays.empty()) {
    target.dtype = left.arrays[0].dtype;
    target.framework = left.arrays[0].framework;
    target.device = call.device = left.arrays[0].device;
  }
  for (std::size_t i = 0; i < segments; ++i) {
    target.rows = extent_of(call.a, 0, i);
    target.cols = extent_of(call.b, 1, i);
    Given given = given_of(i);
    const Program program = given.program;
    Ready ready = make_ready("gemm", std::move(given), target);
    call.segments.push_back({program, std::move(ready.operands)});
    call.outputs.push_back(std::move(ready.outputs));
    append(call.held, std::move(ready.held));
  }
  append(call.held, std::move(left.arrays));
  append(call.held, std::move(right.arrays));
  return call;
}

}  // namespace

Execution GemmCall::execution() const { return execution_on(device); }

nb::list GemmCall::results() const {
  nb::list results;
  for (const nb::list& of_segment : outputs) results.append(of_segment);
  return results;
}

GemmCall read_gemm(const nb::object& a, const nb::object& b, const SegmentObjects& segments) {
  return read_call(objects_of(a), objects_of(b), segments.size(),
                   [&](std::size_t i) { return read_operands("gemm", segments[i].first, segments[i].second); });
}

GemmCall read_launch(const LaunchKind& kind, std::vector<nb::object> a, std::vector<nb::object> b,
                     std::span<const nb::object> inputs) {
  GemmCall call = read_call({kind.a, std::move(a)}, {kind.b, std::move(b)}, kind.programs.size(),
                            [&](std::size_t i) { return read_inputs("gemm", kind.programs[i], inputs); });
  REQUIRE(ValueError, inputs.empty(), "gemm: got ", inputs.size(), inputs.size() == 1 ? " tensor" : " tensors",
          " more than the programs have operands that are no outputs, expected none: leave them out");
  return call;
}

}  // namespace coda::python
