// torch's tensors, streams and memory. No other file of the binding calls torch.
#pragma once

#include <optional>

#include "torch_view.h"

namespace coda::python {

/// Where a torch tensor has memory that can be read: the CPU or a GPU. Nothing for another, and for what is no tensor.
std::optional<Device> device_of_torch(nb::handle object);

/// A torch tensor, there, by its attributes. Errors: as import_array.
Array import_torch(nb::object tensor, Device device, const Place& place, Access access);

/// The address of a torch tensor's first element.
void* data_of_torch(nb::handle tensor);

/// An uninitialised torch tensor.
nb::object empty_torch(const std::vector<std::int64_t>& shape, DType dtype, Device device);

/// A torch scalar on a GPU.
nb::object scalar_on_gpu(double value, DType dtype, Device device);

/// Where work on a device's tensors runs: torch's current stream on a GPU. From the first such call on, coda's own
/// tensors on GPUs are memory of torch's allocator.
Execution execution_on(Device device);

}  // namespace coda::python
