// The environment variables coda reads, all of them, once. docs/environment.md documents each.
#pragma once

#include <string>

namespace coda {

struct Options {
  std::string backend;  ///< CODA_BACKEND: "fast" or "reference"; empty: the first that can
  int threads = 0;      ///< CODA_NUM_THREADS: threads a call may use; 0: every core the process may run on
};

/// Read at the first call. Errors: ValueError for a value that is no number where one is expected.
const Options& options();

}  // namespace coda
