// numpy arrays enter by __array_interface__ (numpy's DLPack refuses bf16), torch tensors by torch_tensors.h, all others
// by DLPack.
#include "torch_view.h"

#include <algorithm>
#include <optional>

#include "torch_tensors.h"

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

}  // namespace

void refuse_type(nb::handle object, const Place& place) {
  std::string got = python_type(object);
  if (is_instance(object, "torch", "Tensor"))  // on meta, say, or torch.sparse_coo
    got = concat(got, " (", text_of(nb::object(object.attr("layout"))), " on ",
                 text_of(nb::object(object.attr("device"))), ")");
  throw TypeError(
      concat(place.text(), " is a ", got,
             ", expected a dense CPU tensor: a numpy array, a torch tensor, or any object with __dlpack__ or "
             "__array_interface__"));
}

void refuse_dtype(nb::handle object, const Place& place) {
  const std::string got = text_of(nb::getattr(object, "dtype", nb::str("an unknown type")));
  throw TypeError(concat(place.text(), " has dtype ", got,
                         ", expected f32, bf16, f16 or f64, or i32 or i64 for indices: convert it first"));
}

namespace {

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
  if (const auto device = device_of_torch(object)) return import_torch(std::move(array), *device, place, access);
  if (is_instance(object, "numpy", "ndarray")) return import_numpy(std::move(array), place, access);
  if (nb::hasattr(object, "__dlpack__")) return import_dlpack(std::move(array), place, access);
  const bool readable = nb::hasattr(object, "__array_interface__") && access == Access::Read;
  if (!readable) refuse_type(object, place);
  return import_numpy(nb::module_::import_("numpy").attr("asarray")(object), place, access);
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
