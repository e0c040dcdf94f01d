#include "core/device_memory.h"

#include <atomic>

#include "core/check.h"

namespace coda {
namespace {

std::atomic<const DeviceMemory*>& memory_of_gpus() {
  static std::atomic<const DeviceMemory*> memory = nullptr;
  return memory;
}

}  // namespace

void provide_device_memory(DeviceKind kind, const DeviceMemory& memory) {
  INVARIANT(kind == DeviceKind::Cuda, "memory of the host is not provided");
  memory_of_gpus() = &memory;
}

const DeviceMemory& device_memory(std::string_view call, Device device) {
  const DeviceMemory* memory = device.kind == DeviceKind::Cuda ? memory_of_gpus().load() : nullptr;
  REQUIRE(NotImplementedError, memory != nullptr, call, ": got device ", device_text(device),
          ", expected cpu: this program links no part of coda that knows GPUs");
  return *memory;
}

}  // namespace coda
