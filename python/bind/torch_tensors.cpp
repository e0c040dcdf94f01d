#include "torch_tensors.h"

#include <optional>
#include <utility>
#include <vector>

#include "bind.h"

namespace coda::python {
namespace {

constexpr std::pair<DType, const char*> kTorchDtypes[] = {
    {DType::F64, "float64"}, {DType::F32, "float32"}, {DType::BF16, "bfloat16"},
    {DType::F16, "float16"}, {DType::I32, "int32"},   {DType::I64, "int64"},
};

// What every import of a torch tensor asks for, looked up once: the names cost more than the answers. Lives as long as
// the process, as torch does.
struct Torch {
  explicit Torch(nb::handle module)
      : tensor_type(nb::getattr(module, "Tensor").release()),
        empty(nb::getattr(module, "empty").release()),
        full(nb::getattr(module, "full").release()),
        make_device(nb::getattr(module, "device").release()) {
    for (const auto& [ours, theirs] : kTorchDtypes) dtypes.emplace_back(ours, nb::getattr(module, theirs).release());
  }

  std::optional<DType> dtype_of(nb::handle dtype) const {
    for (const auto& [ours, theirs] : dtypes)
      if (theirs.is(dtype)) return ours;
    return {};
  }
  nb::handle dtype_of(DType dtype) const {
    for (const auto& [ours, theirs] : dtypes)
      if (ours == dtype) return theirs;
    INVARIANT(false, "torch has no dtype for ", name_of(dtype));
  }

  nb::handle tensor_type, empty, full, make_device;
  std::vector<std::pair<DType, nb::handle>> dtypes;
  nb::handle data_ptr = name("data_ptr"), stride = name("stride"), shape = name("shape"), dtype = name("dtype"),
             is_cpu = name("is_cpu"), is_cuda = name("is_cuda"), requires_grad = name("requires_grad"),
             is_neg = name("is_neg"), resolve_neg = name("resolve_neg"), get_device = name("get_device");
  nb::handle empty_keywords = nb::make_tuple("dtype", "device").release();

 private:
  static nb::handle name(const char* text) { return PyUnicode_InternFromString(text); }
};

// Nothing while no one has imported torch: no framework is ever imported for a look.
const Torch* loaded_torch() {
  static const Torch* torch = nullptr;
  if (torch) return torch;
  const nb::handle module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  if (module && nb::hasattr(module, "Tensor") && nb::hasattr(module, "device")) torch = new Torch(module);
  return torch;
}

const Torch& imported_torch() {
  if (!loaded_torch()) (void)nb::module_::import_("torch");
  const Torch* torch = loaded_torch();
  INVARIANT(torch, "torch was imported without its Tensor");
  return *torch;
}

nb::object get(nb::handle object, nb::handle name) {
  PyObject* const value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (!value) throw nb::python_error();
  return nb::steal(value);
}

nb::object call(nb::handle object, nb::handle method) {
  PyObject* const arguments[] = {object.ptr()};
  PyObject* const value = PyObject_VectorcallMethod(method.ptr(), arguments, 1, nullptr);
  if (!value) throw nb::python_error();
  return nb::steal(value);
}

std::vector<std::int64_t> extents_of(const nb::object& tuple) {
  std::vector<std::int64_t> extents;
  const auto count = PyTuple_GET_SIZE(tuple.ptr());
  extents.reserve(static_cast<std::size_t>(count));
  for (Py_ssize_t axis = 0; axis < count; ++axis)
    extents.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), axis)));
  return extents;
}

bool is_torch(nb::handle object) {
  const Torch* torch = loaded_torch();
  return torch && PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(torch->tensor_type.ptr()));
}

nb::object torch_device(const Torch& torch, Device device) {
  static std::vector<std::pair<Device, nb::handle>> known;
  for (const auto& [ours, theirs] : known)
    if (ours == device) return nb::borrow(theirs);
  const nb::object made = torch.make_device(nb::str(device_text(device).c_str()));
  known.emplace_back(device, nb::handle(made.inc_ref()));
  return made;
}

// The function that gives a GPU's current stream as an address. From the first call on, coda's tensors on GPUs are
// memory of torch's allocator.
nb::handle current_stream() {
  static const nb::handle function = [] {
    const nb::module_ torch = nb::module_::import_("torch");
    const nb::object cuda = torch.attr("cuda");
    use_gpu_memory(cuda.attr("caching_allocator_alloc"), cuda.attr("caching_allocator_delete"));
    return nb::object(torch.attr("_C").attr("_cuda_getCurrentRawStream")).release();
  }();
  return function;
}

}  // namespace

std::optional<Device> device_of_torch(nb::handle object) {
  if (!is_torch(object)) return {};
  const Torch& torch = *loaded_torch();
  if (get(object, torch.is_cuda).is(Py_True))
    return Device{DeviceKind::Cuda, static_cast<int>(PyLong_AsLong(call(object, torch.get_device).ptr()))};
  if (get(object, torch.is_cpu).is(Py_True)) return Device{};
  return {};
}

// Its DLPack is slow, and makes the default stream wait, which no capture allows.
Array import_torch(nb::object tensor, Device device, const Place& place, Access access) {
  const Torch& torch = *loaded_torch();
  if (access == Access::Write)
    REQUIRE(ValueError, !get(tensor, torch.requires_grad).is(Py_True), place.text(),
            " requires grad, expected a tensor outside autograd: it is an output, pass tensor.detach()");
  const std::optional<DType> dtype = torch.dtype_of(get(tensor, torch.dtype));
  if (!dtype) refuse_dtype(tensor, place);
  Array result{.dtype = *dtype, .framework = Framework::Torch, .device = device};
  try {
    if (access == Access::Read && call(tensor, torch.is_neg).is(Py_True)) tensor = call(tensor, torch.resolve_neg);
    result.strides = extents_of(call(tensor, torch.stride));
    result.data = data_of_torch(tensor);
  } catch (const nb::python_error&) {  // sparse, or another that only looks like a tensor
    refuse_type(tensor, place);
  }
  result.shape = extents_of(get(tensor, torch.shape));
  result.owner = std::move(tensor);
  return result;
}

void* data_of_torch(nb::handle tensor) { return PyLong_AsVoidPtr(call(tensor, loaded_torch()->data_ptr).ptr()); }

nb::object empty_torch(const std::vector<std::int64_t>& shape, DType dtype, Device device) {
  const Torch& torch = imported_torch();
  const nb::object extents = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    PyTuple_SET_ITEM(extents.ptr(), static_cast<Py_ssize_t>(axis), PyLong_FromLongLong(shape[axis]));
  const nb::object on = torch_device(torch, device);
  PyObject* const arguments[] = {extents.ptr(), torch.dtype_of(dtype).ptr(), on.ptr()};
  PyObject* const made = PyObject_Vectorcall(torch.empty.ptr(), arguments, 1, torch.empty_keywords.ptr());
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

nb::object scalar_on_gpu(double value, DType dtype, Device device) {
  const Torch& torch = imported_torch();
  return nb::borrow(torch.full)(nb::make_tuple(), value, nb::arg("dtype") = torch.dtype_of(dtype),
                                nb::arg("device") = torch_device(torch, device));
}

Execution execution_on(Device device) {
  if (device.kind != DeviceKind::Cuda) return {};
  return {.stream = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(current_stream()(device.index)))};
}

}  // namespace coda::python
