// numpy arrays enter by __array_interface__ (numpy's DLPack refuses bf16), torch tensors by their attributes, all
// others by DLPack.
#include "torch_view.h"

#include <algorithm>
#include <optional>

namespace coda::python {
namespace {

// True when `object` is an instance of a class of a module that is already imported: no framework is ever imported.
bool is_instance(nb::handle object, const char* module, const char* name) {
  const nb::handle loaded = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  if (!loaded) return false;
  const nb::object type = nb::getattr(loaded, name, nb::none());
  return PyType_Check(type.ptr()) && PyObject_IsInstance(object.ptr(), type.ptr()) == 1;
}

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

std::string python_type(nb::handle object) {
  const nb::handle type = object.type();
  const std::string module = text_of(nb::object(type.attr("__module__")));
  const std::string name = text_of(nb::object(type.attr("__qualname__")));
  return module == "builtins" ? name : concat(module, ".", name);
}

[[noreturn]] void refuse_type(nb::handle object, const Place& place) {
  throw TypeError(
      concat(place.text(), " is a ", python_type(object),
             ", expected a dense CPU tensor: a numpy array, a torch tensor, or any object with __dlpack__ or "
             "__array_interface__"));
}

[[noreturn]] void refuse_dtype(nb::handle object, const Place& place) {
  const std::string got = text_of(nb::getattr(object, "dtype", nb::str("an unknown type")));
  throw TypeError(concat(place.text(), " has dtype ", got,
                         ", expected f32, bf16, f16 or f64, or i32 or i64 for indices: convert it first"));
}

std::optional<DType> dtype_of_numpy(nb::handle array, std::string_view typestr) {
  const char kind = typestr.size() < 3 ? '?' : typestr[1];
  const std::string_view bytes = typestr.substr(std::min<std::size_t>(2, typestr.size()));
  if (typestr[0] == '>') return {};  // the other byte order
  if (kind == 'f')
    return bytes == "4"   ? std::optional(DType::F32)
           : bytes == "2" ? std::optional(DType::F16)
           : bytes == "8" ? std::optional(DType::F64)
                          : std::nullopt;
  if (kind == 'i')
    return bytes == "4" ? std::optional(DType::I32) : bytes == "8" ? std::optional(DType::I64) : std::nullopt;
  if (kind == 'V' && bytes == "2" && text_of(nb::object(array.attr("dtype"))) == "bfloat16")
    return DType::BF16;  // ml_dtypes
  return {};
}

std::optional<DType> dtype_of_dlpack(nb::dlpack::dtype type) {
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  if (type.lanes != 1) return {};
  if (code == nb::dlpack::dtype_code::Bfloat && type.bits == 16) return DType::BF16;
  if (code == nb::dlpack::dtype_code::Float)
    return type.bits == 32   ? std::optional(DType::F32)
           : type.bits == 16 ? std::optional(DType::F16)
           : type.bits == 64 ? std::optional(DType::F64)
                             : std::nullopt;
  if (code == nb::dlpack::dtype_code::Int)
    return type.bits == 32 ? std::optional(DType::I32) : type.bits == 64 ? std::optional(DType::I64) : std::nullopt;
  return {};
}

// `array` is a numpy.ndarray.
Array import_numpy(nb::object array, const Place& place, Access access) {
  const nb::dict fields = nb::cast<nb::dict>(array.attr("__array_interface__"));
  const auto typestr = nb::cast<std::string>(fields["typestr"]);
  const std::optional<DType> dtype = dtype_of_numpy(array, typestr);
  if (!dtype) refuse_dtype(array, place);
  const nb::tuple data = nb::cast<nb::tuple>(fields["data"]);
  REQUIRE(ValueError, access == Access::Read || !nb::cast<bool>(data[1]), place.text(),
          " is read-only, expected a writable array: it is an output");
  Array result{.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(data[0])), .dtype = *dtype};
  const nb::tuple strides = nb::cast<nb::tuple>(array.attr("strides"));
  const auto bytes = static_cast<std::int64_t>(size_of(*dtype));
  for (const nb::handle extent : nb::cast<nb::tuple>(fields["shape"]))
    result.shape.push_back(nb::cast<std::int64_t>(extent));
  for (const nb::handle stride : strides) {
    const auto step = nb::cast<std::int64_t>(stride);
    REQUIRE(ValueError, step % bytes == 0, place.text(), " has a stride of ", step, " bytes, expected a multiple of ",
            bytes, ": copy it first");
    result.strides.push_back(step / bytes);
  }
  result.owner = std::move(array);
  return result;
}

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

  nb::handle tensor_type, empty, make_device;
  std::vector<std::pair<DType, nb::handle>> dtypes;
  nb::handle data_ptr = name("data_ptr"), stride = name("stride"), shape = name("shape"), dtype = name("dtype"),
             is_cpu = name("is_cpu"), is_cuda = name("is_cuda"), requires_grad = name("requires_grad"),
             resolve_neg = name("resolve_neg"), get_device = name("get_device");
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

// Whether a torch tensor has memory that can be read: on the CPU or a GPU.
bool is_torch_in_memory(nb::handle object) {
  if (!is_torch(object)) return false;
  const Torch& torch = *loaded_torch();
  return get(object, torch.is_cpu).is(Py_True) || get(object, torch.is_cuda).is(Py_True);
}

// A torch tensor by its attributes: its DLPack is slow, and makes the default stream wait, which no capture allows.
Array import_torch(nb::object tensor, const Place& place, Access access) {
  const Torch& torch = *loaded_torch();
  if (access == Access::Write)
    REQUIRE(ValueError, !get(tensor, torch.requires_grad).is(Py_True), place.text(),
            " requires grad, expected a tensor outside autograd: it is an output, pass tensor.detach()");
  const std::optional<DType> dtype = torch.dtype_of(get(tensor, torch.dtype));
  if (!dtype) refuse_dtype(tensor, place);
  Array result{.dtype = *dtype, .framework = Framework::Torch};
  try {
    if (access == Access::Read) tensor = call(tensor, torch.resolve_neg);
    result.strides = extents_of(call(tensor, torch.stride));
    result.data = PyLong_AsVoidPtr(call(tensor, torch.data_ptr).ptr());
  } catch (const nb::python_error&) {  // sparse, or another that only looks like a tensor
    refuse_type(tensor, place);
  }
  result.shape = extents_of(get(tensor, torch.shape));
  if (get(tensor, torch.is_cuda).is(Py_True))
    result.device = {DeviceKind::Cuda, nb::cast<int>(call(tensor, torch.get_device))};
  result.owner = std::move(tensor);
  return result;
}

nb::object torch_device(const Torch& torch, Device device) {
  static std::vector<std::pair<Device, nb::handle>> known;
  for (const auto& [ours, theirs] : known)
    if (ours == device) return nb::borrow(theirs);
  const nb::object made = torch.make_device(nb::str(device_text(device).c_str()));
  known.emplace_back(device, nb::handle(made.inc_ref()));
  return made;
}

void require_cpu(nb::handle object, const Place& place) {
  constexpr int kCpu = 1, kCudaHost = 3;  // DLPack's device kinds
  int kind = 0;
  try {
    kind = nb::cast<int>(nb::cast<nb::tuple>(object.attr("__dlpack_device__")())[0]);
  } catch (const nb::python_error&) {  // torch's meta tensors
    refuse_type(object, place);
  }
  if (kind == kCpu || kind == kCudaHost) return;
  const std::string device = text_of(nb::getattr(object, "device", nb::str("another device")));
  throw NotImplementedError(concat(place.text(), " is on ", device,
                                   ", expected a CPU tensor or a torch tensor on a GPU: use torch.from_dlpack"));
}

Array import_dlpack(nb::object object, const Place& place, Access access) {
  require_cpu(object, place);
  nb::ndarray<nb::ro> array;
  nb::ndarray<> writable;
  const bool imported = access == Access::Read ? nb::try_cast(object, array) : nb::try_cast(object, writable);
  if (!imported) refuse_type(object, place);
  if (access == Access::Write) array = nb::ndarray<nb::ro>(writable);
  const std::optional<DType> dtype = dtype_of_dlpack(array.dtype());
  if (!dtype) refuse_dtype(object, place);
  Array result{.data = const_cast<void*>(static_cast<const void*>(array.data())), .dtype = *dtype};
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    result.shape.push_back(static_cast<std::int64_t>(array.shape(axis)));
    result.strides.push_back(array.stride(axis));
  }
  result.owner = std::move(object);
  result.lease = std::move(array);
  return result;
}

}  // namespace

Array import_array(nb::handle object, const Place& place, Access access) {
  nb::object array = nb::borrow(object);
  if (is_torch_in_memory(object)) return import_torch(std::move(array), place, access);
  if (is_instance(object, "numpy", "ndarray")) return import_numpy(std::move(array), place, access);
  if (nb::hasattr(object, "__dlpack__")) return import_dlpack(std::move(array), place, access);
  const bool readable = nb::hasattr(object, "__array_interface__") && access == Access::Read;
  if (!readable) refuse_type(object, place);
  return import_numpy(nb::module_::import_("numpy").attr("asarray")(object), place, access);
}

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
  return nb::module_::import_("torch").attr("full")(nb::make_tuple(), value, nb::arg("dtype") = torch.dtype_of(dtype),
                                                    nb::arg("device") = torch_device(torch, device));
}

void* current_stream(Device device) {
  const nb::object stream = nb::module_::import_("torch").attr("cuda").attr("current_stream")(device.index);
  return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(stream.attr("cuda_stream")));
}

Execution execution_on(Device device) {
  return {.stream = device.kind == DeviceKind::Cuda ? current_stream(device) : nullptr};
}

nb::object export_tensor(const Tensor& tensor, const std::vector<std::int64_t>& shape, Framework framework) {
  const std::vector<std::size_t> extents(shape.begin(), shape.end());
  const DType dtype = tensor.view().dtype();
  const Device device = tensor.view().device();
  if (device.kind == DeviceKind::Cuda) framework = Framework::Torch;
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  const bool as_bits = dtype == DType::BF16 && framework == Framework::Numpy;  // numpy knows no bf16 of its own
  const nb::dlpack::dtype_code code = as_bits                ? nb::dlpack::dtype_code::UInt
                                      : is_integer(dtype)    ? nb::dlpack::dtype_code::Int
                                      : dtype == DType::BF16 ? nb::dlpack::dtype_code::Bfloat
                                                             : nb::dlpack::dtype_code::Float;
  const nb::dlpack::dtype type{static_cast<std::uint8_t>(code), bits, 1};
  const nb::capsule owner(new Tensor(tensor), [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  void* const data = tensor.view().data();
  if (framework == Framework::Torch)
    return nb::cast(nb::ndarray<nb::pytorch>(
        data, extents.size(), extents.data(), owner, nullptr, type,
        device.kind == DeviceKind::Cuda ? nb::device::cuda::value : nb::device::cpu::value, device.index));
  nb::object array = nb::cast(nb::ndarray<nb::numpy>(data, extents.size(), extents.data(), owner, nullptr, type));
  return as_bits ? array.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16")) : array;
}

}  // namespace coda::python
