// The environment variables coda reads, all of them, once. docs/environment.md documents each.
#pragma once

#include <string>

namespace coda {

struct Options {
  std::string backend;         ///< CODA_BACKEND: "fast" or "reference"; empty: the first that can
  int threads = 0;             ///< CODA_NUM_THREADS: threads a call may use; 0: every core the process may run on
  std::string cache = "rw";    ///< CODA_CACHE: "rw", "ro" or "off": what may be done with the disk cache of kernels
  std::string cache_dir;       ///< CODA_CACHE_DIR: its directory; empty: below one of the next two
  std::string xdg_cache_home;  ///< XDG_CACHE_HOME
  std::string home;            ///< HOME
  std::string nvrtc;           ///< CODA_NVRTC: file of the NVRTC library; empty: looked for
  std::string nvrtc_flags;     ///< NVRTC_APPEND_FLAGS: options NVRTC takes from the environment by itself
  std::string virtual_env;     ///< VIRTUAL_ENV: the active Python environment, whose packages may hold an NVRTC
};

/// Read at the first call. Errors: ValueError for a value that is not of the kind expected.
const Options& options();

/// What the environment says now, for tests. Errors: as options.
Options read_options();

}  // namespace coda
