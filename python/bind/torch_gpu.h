// Tensors, streams and memory of a GPU, as torch has them: the one framework whose GPU tensors are taken. No other file
// of the binding calls torch for what lies on a GPU.
#pragma once

#include "torch_view.h"

namespace coda::python {

bool is_torch_on_gpu(nb::handle object);

/// The memory of a torch CUDA tensor, by its attributes: torch's DLPack would make the default stream wait, which no
/// capture allows. Errors: as import_array.
Array import_torch_on_gpu(nb::object tensor, const Place& place, Access access);

/// An uninitialised torch tensor on a GPU.
nb::object empty_on_gpu(const std::vector<std::int64_t>& shape, DType dtype, Device device);

/// A torch scalar on a GPU.
nb::object scalar_on_gpu(double value, DType dtype, Device device);

/// Where work on a device's tensors runs: torch's current stream on a GPU. From the first such call on, coda's own
/// tensors on GPUs are memory of torch's allocator.
Execution execution_on(Device device);

}  // namespace coda::python
