// torch's tensors, streams and memory. No other file of the binding calls torch.
#pragma once

#include "torch_view.h"

namespace coda::python {

/// Whether an object is a torch tensor with memory that can be read: on the CPU or a GPU.
bool is_torch_in_memory(nb::handle object);

/// A torch tensor by its attributes. Errors: as import_array.
Array import_torch(nb::object tensor, const Place& place, Access access);

/// An uninitialised torch tensor.
nb::object empty_torch(const std::vector<std::int64_t>& shape, DType dtype, Device device);

/// A torch scalar on a GPU.
nb::object scalar_on_gpu(double value, DType dtype, Device device);

/// Where work on a device's tensors runs: torch's current stream on a GPU. From the first such call on, coda's own
/// tensors on GPUs are memory of torch's allocator.
Execution execution_on(Device device);

}  // namespace coda::python
