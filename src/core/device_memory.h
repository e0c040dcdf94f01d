// Memory that is not the host's: the stage that knows a kind of device provides it, core knows none.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "coda/tensor.h"

namespace coda {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  /// Uninitialised memory, aligned to 256 bytes, for work queued on `stream`. When the last owner lets go it returns
  /// behind what is queued there, so memory that kernels still use is safe. Errors: OutOfMemoryError, DeviceError.
  virtual std::shared_ptr<void> allocate(std::string_view call, std::size_t bytes, Device device,
                                         void* stream) const = 0;

  /// Copies between contiguous views of as many bytes, one of them or both on one device; behind what is queued on
  /// `stream`. Returns once host memory is free to change, or for a copy within a device once it is queued. Errors:
  /// DeviceError.
  virtual void copy(std::string_view call, const TensorView& from, const TensorView& to, void* stream) const = 0;

  /// Until all that was queued on a device, on any stream, has ended. Errors: DeviceError.
  virtual void wait(std::string_view call, Device device) const = 0;
};

/// Makes `memory`, which lives as long as the process, that of a kind of device.
void provide_device_memory(DeviceKind kind, const DeviceMemory& memory);

/// Errors: NotImplementedError when nothing provides memory there. `call` begins the message.
const DeviceMemory& device_memory(std::string_view call, Device device);

}  // namespace coda
