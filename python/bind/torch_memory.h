// coda's tensors on GPUs in torch's memory: one allocator for both, so that what one frees the other takes, torch's
// statistics count it, and a captured CUDA graph keeps it with its own.
#pragma once

namespace coda::python {

/// Makes torch's allocator that of coda's tensors on GPUs made from now on. Holds the interpreter lock.
void take_memory_from_torch();

}  // namespace coda::python
