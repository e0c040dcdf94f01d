// Memory of GPUs that functions of Python give: torch's caching allocator, so that one pool serves both.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>

#include "bind.h"
#include "core/device_memory.h"

namespace coda::python {
namespace {

using namespace nb::literals;

constexpr Device kAnyGpu{DeviceKind::Cuda, 0};

/// Asks Python for memory, and the driver for everything else. Lives as long as the process.
class PythonMemory final : public DeviceMemory {
 public:
  PythonMemory(const DeviceMemory& driver, nb::object allocate, nb::object release)
      : driver_(driver), allocate_(std::move(allocate)), release_(std::move(release)) {}

  std::shared_ptr<void> allocate(std::string_view call, std::size_t bytes, Device device, void* stream) const override {
    const nb::gil_scoped_acquire acquire;
    std::uintptr_t address = 0;
    try {
      address = nb::cast<std::uintptr_t>(allocate_(bytes, device.index, reinterpret_cast<std::uintptr_t>(stream)));
    } catch (const nb::python_error& error) {
      name_a_missing_gpu(call, device);
      throw OutOfMemoryError(concat(call, ": out of GPU memory: could not allocate ", bytes, " bytes on ",
                                    device_text(device), " (", nb::cast<std::string>(nb::str(error.value())),
                                    "): free some or use smaller tensors"));
    }
    return {reinterpret_cast<void*>(address), [this](void* memory) { release(memory); }};
  }

  void copy(std::string_view call, const TensorView& from, const TensorView& to, void* stream) const override {
    driver_.copy(call, from, to, stream);
  }

  void wait(std::string_view call, Device device) const override { driver_.wait(call, device); }

 private:
  // Errors: ValueError where there is no such GPU, which allocators tell in words of their own.
  void name_a_missing_gpu(std::string_view call, Device device) const {
    try {
      driver_.wait(call, device);
    } catch (const NotImplementedError&) {
      // No driver: whoever gave the functions knows another GPU.
    }
  }

  void release(void* memory) const noexcept {
    if (!nb::is_alive()) return;  // the process is ending: its memory goes with the context
    const nb::gil_scoped_acquire acquire;
    const nb::error_scope kept;  // an error may be on its way to the caller
    try {
      release_(reinterpret_cast<std::uintptr_t>(memory));
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("coda_cpp: releasing memory of a GPU");
    }
  }

  const DeviceMemory& driver_;
  nb::object allocate_, release_;
};

}  // namespace

void use_gpu_memory(nb::object allocate, nb::object release) {
  provide_device_memory(DeviceKind::Cuda, *new PythonMemory(device_memory("use_gpu_memory", kAnyGpu),
                                                            std::move(allocate), std::move(release)));
}

void bind_memory(nb::module_& module) {
  module.def(
      "use_gpu_memory", &use_gpu_memory, "allocate"_a, "release"_a,
      "From now on memory of GPUs comes from these functions: allocate(bytes, index, stream) gives an address aligned "
      "to 256 bytes for work on that CUstream, release(address) takes it back behind what is queued there. Once a "
      "process.");
}

}  // namespace coda::python
