// Memory of GPUs for coda's own tensors.
#pragma once

#include "core/device_memory.h"

namespace coda::cuda {

/// Takes it from a pool of ours on each GPU, in the order of streams.
const DeviceMemory& gpu_memory();

}  // namespace coda::cuda
