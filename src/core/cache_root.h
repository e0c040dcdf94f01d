// Where coda keeps what it may find again: compiled kernels and recorded schedules.
#pragma once

#include <string>

#include "core/options.h"

namespace coda {

/// CODA_CACHE_DIR, else XDG_CACHE_HOME/coda, else HOME/.cache/coda; empty when none is an absolute path.
std::string cache_root(const Options& options);

}  // namespace coda
