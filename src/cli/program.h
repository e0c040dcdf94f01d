// The command line program `coda` as a function: an executable of its own beside the C++ library, `python -m coda_cpp`
// in the Python package.
#pragma once

#include <string>
#include <vector>

#include "coda/cuda.h"

namespace coda::cli {

/// Runs `coda ARGUMENTS` and returns its exit status. Writes to stdout and stderr; never throws. `host`: what `doctor`
/// says of the program it runs in, after what coda itself needs.
int run(std::vector<std::string> arguments, const std::vector<Diagnosis>& host = {});

}  // namespace coda::cli
