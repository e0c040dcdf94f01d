#include "cuda/compile/cache.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "core/options.h"
#include "core/thread_count.h"
#include "cuda/compile/kernel_cache.h"

namespace coda::cuda {
namespace {

// NVRTC needs some hundreds of megabytes for a large kernel.
constexpr long kKilobytesPerJob = 1L << 20;

struct ProcessCache {
  std::mutex mutex;
  std::unique_ptr<KernelCache> cache;
};

ProcessCache& holder() {
  // Never destroyed: threads may compile while the process ends.
  static ProcessCache& instance = *new ProcessCache;
  return instance;
}

std::string meminfo() {
  std::ostringstream text;
  text << std::ifstream("/proc/meminfo").rdbuf();
  return text.str();
}

}  // namespace

int compile_jobs(std::size_t sources, int threads, const std::string& meminfo) {
  constexpr std::string_view field = "MemAvailable:";
  long jobs = std::min(static_cast<long>(sources), static_cast<long>(threads));
  if (const std::size_t at = meminfo.find(field); at != std::string::npos) {
    const std::size_t digits = meminfo.find_first_not_of(' ', at + field.size());
    long kilobytes = 0;
    if (digits != std::string::npos)
      std::from_chars(meminfo.data() + digits, meminfo.data() + meminfo.size(), kilobytes);
    jobs = std::min(jobs, kilobytes / kKilobytesPerJob);
  }
  return static_cast<int>(std::max(jobs, 1L));
}

std::vector<KernelCache::Result> KernelCache::get(const std::vector<KernelSource>& sources) {
  std::vector<Result> results(sources.size());
  std::vector<std::exception_ptr> errors(sources.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < sources.size(); i = next++) try {
        results[i] = get(sources[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
  };
  std::vector<std::thread> helpers;
  try {
    for (int job = compile_jobs(sources.size(), thread_count(), meminfo()); job > 1; --job) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: those there are do it all.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return results;
}

KernelCache& process_cache() {
  ProcessCache& process = holder();
  const std::lock_guard lock(process.mutex);
  if (!process.cache) process.cache = std::make_unique<KernelCache>(cache_settings(options()), nvrtc_compiler());
  return *process.cache;
}

void set_process_cache_for_testing(std::unique_ptr<KernelCache> cache) {
  ProcessCache& process = holder();
  const std::lock_guard lock(process.mutex);
  process.cache = std::move(cache);
}

std::shared_ptr<const Cubin> compiled(const KernelSource& source) { return process_cache().get(source); }

std::vector<std::shared_ptr<const Cubin>> compiled(const std::vector<KernelSource>& sources) {
  return process_cache().get(sources);
}

std::shared_ptr<const Cubin> find_compiled(const KernelSource& source) { return process_cache().find(source); }

std::string cache_key(const KernelSource& source) { return process_cache().key(source); }

CacheReport cache_report() { return process_cache().report(); }

std::vector<CacheEntry> cache_entries() { return process_cache().entries(); }

int clear_cache() { return process_cache().clear(); }

}  // namespace coda::cuda
