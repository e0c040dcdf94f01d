// Tensors of Python frameworks as TensorViews, without a copy, and coda's tensors as theirs. Nothing but torch_view.cpp
// and torch_tensors.cpp knows numpy and torch.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coda/backend.h"
#include "coda/tensor.h"
#include "core/check.h"

namespace coda::python {

namespace nb = nanobind;

/// The framework results are handed back in.
enum class Framework : std::uint8_t { Numpy, Torch };

enum class Access : std::uint8_t { Read, Write };

/// What an error calls a tensor: {"gemm", "operand 'bias'"}.
struct Place {
  std::string_view call;
  std::string what;
  std::string text() const { return concat(call, ": ", what); }
};

/// A tensor argument of any rank: its memory, and the object that keeps it alive.
struct Array {
  void* data = nullptr;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape{};
  std::vector<std::int64_t> strides{};  ///< in elements
  nb::object owner{};
  nb::ndarray<nb::ro> lease{};  ///< DLPack: what the exporter releases when we are done
  Framework framework = Framework::Numpy;
  Device device{};

  int rank() const { return static_cast<int>(shape.size()); }
  TensorView view() const { return {data, dtype, shape, strides, device}; }
};

/// The memory of a framework's tensor; on a GPU, of torch alone. Errors: TypeError, ValueError, NotImplementedError (on
/// a device that is not taken).
Array import_array(nb::handle object, const Place& place, Access access = Access::Read);

/// Errors: TypeError that names what an object is, or the dtype a tensor has.
[[noreturn]] void refuse_type(nb::handle object, const Place& place);
[[noreturn]] void refuse_dtype(nb::handle object, const Place& place);

/// A framework's tensor of that shape on coda's memory, which it keeps alive; torch's on a GPU.
nb::object export_tensor(const Tensor& tensor, const std::vector<std::int64_t>& shape, Framework framework);

}  // namespace coda::python
