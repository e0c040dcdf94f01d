// The backend "fast": packed panels, the program applied to each tile of accumulators while it is in the cache,
// vectorised for the machine it runs on and threaded. docs/cpu_backend.md tells how.
#pragma once

#include "coda/backend.h"

namespace coda::cpu {

const Backend& fast_backend();

}  // namespace coda::cpu
