// What is on the disk: the parts of KernelCache behind `coda doctor` and `coda cache`.
#include "core/check.h"
#include "cuda/compile/cache_lock.h"
#include "cuda/compile/kernel_cache.h"

namespace coda::cuda {

CacheReport KernelCache::report() const {
  CacheReport report;
  report.directory = settings_.directory;
  if (settings_.mode == CacheMode::Off) {
    report.problem = "CODA_CACHE is off: unset it to keep kernels on disk";
    return report;
  }
  std::string problem = open_cache_directory(settings_, false).problem;
  if (problem.empty() && settings_.mode == CacheMode::ReadWrite) {
    problem = cache_write_problem(settings_);
    report.writable = problem.empty();
  }
  if (!problem.empty()) report.problem = concat(problem, ": ", kDirectoryCure);
  return report;
}

std::vector<CacheEntry> KernelCache::entries() const {
  const CacheDirectory directory = open_cache_directory(settings_, false);
  std::vector<CacheEntry> all;
  if (!directory.descriptor) return all;
  for (const std::string& name : names_in(directory.descriptor.get())) {
    if (!is_entry_name(name)) continue;
    Entry entry = read_entry(directory.descriptor.get(), name);
    all.push_back({name, path_of(name), entry.bytes, std::move(entry.created), entry.state == EntryState::Good});
  }
  return all;
}

int KernelCache::clear() {
  const std::string& path = settings_.directory;
  REQUIRE(FileError, settings_.mode != CacheMode::ReadOnly, "clear_cache: CODA_CACHE is ro, so '", path,
          "' is left alone: unset CODA_CACHE to clear it");
  const CacheDirectory directory = open_cache_directory(settings_, false);
  REQUIRE(FileError, directory.problem.empty(), "clear_cache: directory '", path,
          "' is left alone: ", directory.problem, ": ", kDirectoryCure);
  if (!directory.descriptor) return 0;
  const int open = directory.descriptor.get();
  int removed = 0;
  for (const std::string& name : names_in(open)) {
    if (!is_entry_name(name)) continue;
    const std::string problem = remove_entry(open, name);
    REQUIRE(FileError, problem.empty(), "clear_cache: '", path_of(name), "' cannot be removed (", problem,
            "): check the permissions of the directory");
    ++removed;
  }
  remove_leftovers(open, std::chrono::seconds(0));
  remove_free_locks(open);
  return removed;
}

}  // namespace coda::cuda
