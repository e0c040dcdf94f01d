// A problem's kernel, loaded, and its launches.
#pragma once

#include <memory>

#include "coda/backend.h"
#include "cuda/emit/spec.h"

namespace coda::cuda {

/// Compiles and loads what the problem needs on its GPU. Errors: as load_kernel.
std::unique_ptr<Plan> make_plan(const Problem& problem, const KernelSpec& spec, void* stream);

/// The same for a problem without factors.
std::unique_ptr<Plan> make_elementwise_plan(const Problem& problem, void* stream);

}  // namespace coda::cuda
