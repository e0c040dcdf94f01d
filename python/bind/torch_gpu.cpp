#include "torch_gpu.h"

#include <array>
#include <optional>

#include "torch_memory.h"

namespace coda::python {
namespace {

// What is asked of torch in every call, looked up once. Never freed: the interpreter may end before the last tensor.
struct Torch {
  struct Type {
    DType ours;
    nb::object theirs;
  };

  nb::object tensor, empty, full, current_stream;
  std::array<Type, 6> dtypes;

  static const Torch& get() {
    static const auto* const torch = new Torch;
    return *torch;
  }

  nb::handle dtype(DType dtype) const {
    for (const Type& type : dtypes)
      if (type.ours == dtype) return type.theirs;
    INVARIANT(false, "torch has no dtype for ", name_of(dtype));
  }

 private:
  explicit Torch(const nb::module_& torch = nb::module_::import_("torch"))
      : tensor(torch.attr("Tensor")),
        empty(torch.attr("empty")),
        full(torch.attr("full")),
        current_stream(torch.attr("cuda").attr("current_stream")),
        dtypes{{{DType::F64, torch.attr("float64")},
                {DType::F32, torch.attr("float32")},
                {DType::BF16, torch.attr("bfloat16")},
                {DType::F16, torch.attr("float16")},
                {DType::I32, torch.attr("int32")},
                {DType::I64, torch.attr("int64")}}} {
    take_memory_from_torch();
  }
};

std::optional<DType> dtype_of(nb::handle tensor) {
  const nb::object dtype = tensor.attr("dtype");
  for (const Torch::Type& type : Torch::get().dtypes)
    if (dtype.is(type.theirs)) return type.ours;
  return {};
}

void append(std::vector<std::int64_t>& to, const nb::object& extents) {
  for (const nb::handle extent : nb::borrow<nb::tuple>(extents)) to.push_back(nb::cast<std::int64_t>(extent));
}

nb::object device_of(Device device) { return nb::str(device_text(device).c_str()); }

}  // namespace

bool is_torch_on_gpu(nb::handle object) {
  return is_instance(object, "torch", "Tensor") && nb::cast<bool>(object.attr("is_cuda"));
}

Array import_torch_on_gpu(nb::object tensor, const Place& place, Access access) {
  if (access == Access::Write)
    require_outside_autograd(tensor, place);
  else if (nb::cast<bool>(tensor.attr("is_neg")()))
    tensor = tensor.attr("resolve_neg")();
  const std::optional<DType> dtype = dtype_of(tensor);
  if (!dtype) refuse_dtype(tensor, place);
  Array result{.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(tensor.attr("data_ptr")())), .dtype = *dtype};
  append(result.shape, tensor.attr("shape"));
  append(result.strides, tensor.attr("stride")());
  result.device = {DeviceKind::Cuda, nb::cast<int>(tensor.attr("get_device")())};
  result.framework = Framework::Torch;
  result.owner = std::move(tensor);
  return result;
}

nb::object empty_on_gpu(const std::vector<std::int64_t>& shape, DType dtype, Device device) {
  const Torch& torch = Torch::get();
  nb::list extents;
  for (const std::int64_t extent : shape) extents.append(extent);
  return torch.empty(extents, nb::arg("dtype") = torch.dtype(dtype), nb::arg("device") = device_of(device));
}

nb::object scalar_on_gpu(double value, DType dtype, Device device) {
  const Torch& torch = Torch::get();
  return torch.full(nb::make_tuple(), value, nb::arg("dtype") = torch.dtype(dtype),
                    nb::arg("device") = device_of(device));
}

Execution execution_on(Device device) {
  if (device.kind != DeviceKind::Cuda) return {};
  const nb::object stream = Torch::get().current_stream(device.index);
  return {.stream = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(stream.attr("cuda_stream")))};
}

}  // namespace coda::python
