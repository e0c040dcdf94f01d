// A cache of compiled kernels: memory over disk over compiler. cache.h is the one of this process; tests make their
// own.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/compile/cache.h"
#include "cuda/compile/cache_directory.h"
#include "cuda/compile/cache_entry.h"

namespace coda::cuda {

/// What turns text into a cubin, and what tells it apart from others.
struct Compiler {
  std::function<Cubin(const KernelSource&)> compile;
  std::function<std::string()> build;
};

/// compile() and nvrtc_build().
Compiler nvrtc_compiler();

class KernelCache {
 public:
  using Result = std::shared_ptr<const Cubin>;

  KernelCache(CacheSettings settings, Compiler compiler);

  /// As the functions of cache.h.
  Result get(const KernelSource& source);
  std::vector<Result> get(const std::vector<KernelSource>& sources);
  Result find(const KernelSource& source);
  std::string key(const KernelSource& source) const;
  CacheReport report() const;
  std::vector<CacheEntry> entries() const;
  int clear();

 private:
  // A kernel in memory, or being made by a thread of process `maker`. After a fork the child has no such thread.
  struct Slot {
    std::shared_future<Result> result;
    int maker = 0;
  };
  // One kernel on its way through the cache.
  struct Request {
    const KernelSource& source;
    CompilationInputs inputs;
    std::string key;
    std::string entry;  ///< folder name
  };

  Request request(const KernelSource& source) const;
  Cubin load_or_compile(const Request& request);
  Cubin compile_and_keep(const Request& request, int directory);
  bool load(const Request& request, int directory, Cubin& cubin, std::string& problem) const;
  void keep(const Request& request, int directory, const Cubin& cubin);
  void replace_bad(const Request& request, int directory, const std::string& problem);
  void warn_unused(const std::string& problem) const;
  std::string path_of(const std::string& entry) const;

  const CacheSettings settings_;
  const Compiler compiler_;
  std::once_flag leftovers_removed_;
  mutable std::mutex mutex_;
  std::map<std::string, Slot> slots_;  ///< by entry name
};

/// The cache behind cache.h.
KernelCache& process_cache();

/// For tests: puts another in its place; null brings back the one of the environment.
void set_process_cache_for_testing(std::unique_ptr<KernelCache> cache);

/// What to do about a directory that is not used.
inline constexpr const char* kDirectoryCure = "set CODA_CACHE_DIR to a directory that only you can write";

/// How many compilations may run at a time: as there are sources, threads to use, and GiB of free memory.
int compile_jobs(std::size_t sources, int threads, const std::string& meminfo);

}  // namespace coda::cuda
