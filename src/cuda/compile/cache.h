// Compiled kernels, kept in memory and on disk. docs/cache.md describes the folders.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/compile/nvrtc.h"

namespace coda::cuda {

/// A kernel's text and what it is called: the part of an entry's folder name that people read.
struct KernelSource {
  std::string name;  ///< letters, digits and underscores
  std::string text;
  std::string arch;  ///< "sm_90a"
};

/// The compiled kernel, from memory, else from disk, else from the compiler: one compilation for each source, whatever
/// the number of threads and processes that ask. Errors: as compile; a cache directory that cannot be used is none.
std::shared_ptr<const Cubin> compiled(const KernelSource& source);

/// The same for several, as many at a time as there are threads to use and memory for; the first error is thrown after
/// all have ended.
std::vector<std::shared_ptr<const Cubin>> compiled(const std::vector<KernelSource>& sources);

/// The kernel if it is in memory or on disk, else null: never compiles. Errors: as nvrtc_build, which is part of the
/// key.
std::shared_ptr<const Cubin> find_compiled(const KernelSource& source);

/// What a cache entry is named by: a hash of all text, options, versions and the architecture. Errors: as nvrtc_build.
std::string cache_key(const KernelSource& source);

struct CacheEntry {
  std::string name;  ///< folder name, `<kernel name>.<key>`
  std::string path;
  std::int64_t bytes = 0;
  std::string created;  ///< ISO 8601, UTC
  bool valid = false;   ///< checksum and header fit
};

/// State of the disk cache, for `coda doctor` and `coda cache`.
struct CacheReport {
  std::string directory;  ///< empty when there is none
  std::string problem;    ///< why the disk is not used, with the cure; empty when it is
  bool writable = false;
};
CacheReport cache_report();

/// What is on disk, sorted by name; every entry is read and checked.
std::vector<CacheEntry> cache_entries();

/// Removes every entry (and what killed processes left) from the disk, not from memory; returns how many. Errors:
/// FileError.
int clear_cache();

}  // namespace coda::cuda
