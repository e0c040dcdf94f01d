#include "torch_memory.h"

#include <nanobind/nanobind.h>

#include <string>

#include "core/check.h"
#include "core/device_memory.h"

namespace coda::python {
namespace {

namespace nb = nanobind;

class TorchMemory final : public DeviceMemory {
 public:
  // `driver`: what copies and waits.
  explicit TorchMemory(const DeviceMemory& driver)
      : driver_(driver),
        allocate_(nb::module_::import_("torch").attr("cuda").attr("caching_allocator_alloc")),
        release_(nb::module_::import_("torch").attr("cuda").attr("caching_allocator_delete")) {}

  std::shared_ptr<void> allocate(std::string_view call, std::size_t bytes, Device device, void* stream) const override {
    const nb::gil_scoped_acquire lock;
    try {
      const auto address =
          nb::cast<std::uintptr_t>(allocate_(bytes, device.index, reinterpret_cast<std::uintptr_t>(stream)));
      return {reinterpret_cast<void*>(address), [this](void* memory) { release(memory); }};
    } catch (const nb::python_error& error) {
      if (!error.matches(nb::module_::import_("torch").attr("OutOfMemoryError"))) throw;
      throw OutOfMemoryError(concat(call, ": torch could not allocate ", bytes, " bytes on ", device_text(device),
                                    ", expected that much free memory: ", nb::str(error.value()).c_str()));
    }
  }

  void copy(std::string_view call, const TensorView& from, const TensorView& to, void* stream) const override {
    driver_.copy(call, from, to, stream);
  }

  void wait(std::string_view call, Device device) const override { driver_.wait(call, device); }

 private:
  void release(void* memory) const noexcept {
    if (!nb::is_alive()) return;  // the process is ending: its memory goes with the context
    const nb::gil_scoped_acquire lock;
    try {
      release_(reinterpret_cast<std::uintptr_t>(memory));
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("coda gives GPU memory back to torch");
    }
  }

  const DeviceMemory& driver_;
  const nb::object allocate_, release_;
};

}  // namespace

void take_memory_from_torch() {
  // Never freed: tensors may outlive the interpreter.
  static const auto* const memory = new TorchMemory(device_memory("coda", {DeviceKind::Cuda, 0}));
  provide_device_memory(DeviceKind::Cuda, *memory);
}

}  // namespace coda::python
