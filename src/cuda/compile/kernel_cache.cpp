#include "cuda/compile/kernel_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/check.h"
#include "core/log.h"
#include "cuda/compile/cache_lock.h"

namespace coda::cuda {
namespace {

bool is_name(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool is_ready(const std::shared_future<KernelCache::Result>& result) {
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

Compiler nvrtc_compiler() {
  return {[](const KernelSource& source) { return compile(source.name, source.text, source.arch); }, nvrtc_build};
}

KernelCache::KernelCache(CacheSettings settings, Compiler compiler)
    : settings_(std::move(settings)), compiler_(std::move(compiler)) {}

KernelCache::Request KernelCache::request(const KernelSource& source) const {
  INVARIANT(is_name(source.name), "cuda: kernel name '", source.name, "', expected letters, digits and underscores");
  CompilationInputs inputs;
  inputs.name = source.name;
  inputs.text = source.text;
  inputs.arch = source.arch;
  inputs.options = compile_options(source.arch);
  inputs.nvrtc = compiler_.build();
  inputs.coda = coda_version();
  static const std::string embedded = digest_of(device_files());
  inputs.device_files = embedded;
  std::string key = key_of(inputs);
  std::string entry = entry_name(source.name, key);
  return {source, std::move(inputs), std::move(key), std::move(entry)};
}

std::string KernelCache::key(const KernelSource& source) const { return request(source).key; }

KernelCache::Result KernelCache::get(const KernelSource& source) {
  const Request wanted = request(source);
  std::promise<Result> promise;
  {
    std::unique_lock lock(mutex_);
    Slot& slot = slots_[wanted.entry];
    if (slot.result.valid() && (slot.maker == ::getpid() || is_ready(slot.result))) {
      const std::shared_future<Result> result = slot.result;
      lock.unlock();
      return result.get();
    }
    slot = {promise.get_future().share(), ::getpid()};
  }
  try {
    Result made = std::make_shared<const Cubin>(load_or_compile(wanted));
    promise.set_value(made);
    return made;
  } catch (...) {
    // Forgotten first, so that whoever sees the error can try again.
    {
      const std::lock_guard lock(mutex_);
      slots_.erase(wanted.entry);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

KernelCache::Result KernelCache::find(const KernelSource& source) {
  const Request wanted = request(source);
  {
    const std::lock_guard lock(mutex_);
    const auto slot = slots_.find(wanted.entry);
    if (slot != slots_.end() && is_ready(slot->second.result)) return slot->second.result.get();
  }
  if (settings_.mode == CacheMode::Off) return {};
  const CacheDirectory directory = open_cache_directory(settings_, false);
  Cubin cubin;
  std::string problem;
  if (!directory.descriptor || !load(wanted, directory.descriptor.get(), cubin, problem)) return {};
  Result found = std::make_shared<const Cubin>(std::move(cubin));
  std::promise<Result> promise;
  promise.set_value(found);
  const std::lock_guard lock(mutex_);
  // A thread that makes the same right now keeps its place.
  slots_.try_emplace(wanted.entry, Slot{promise.get_future().share(), ::getpid()});
  return found;
}

Cubin KernelCache::load_or_compile(const Request& request) {
  if (settings_.mode == CacheMode::Off) return compiler_.compile(request.source);
  const bool writes = settings_.mode == CacheMode::ReadWrite;
  const CacheDirectory directory = open_cache_directory(settings_, writes);
  if (!directory.problem.empty()) warn_unused(directory.problem);
  if (!directory.descriptor) return compiler_.compile(request.source);
  const int open = directory.descriptor.get();
  Cubin cubin;
  std::string problem;
  if (load(request, open, cubin, problem)) return cubin;
  if (writes) return compile_and_keep(request, open);
  if (!problem.empty())
    warn_once("cache entry " + path_of(request.entry),
              concat("kernel cache: '", path_of(request.entry), "' is not used: ", problem,
                     ": the kernel is compiled anew in each process until the entry is removed"));
  return compiler_.compile(request.source);
}

Cubin KernelCache::compile_and_keep(const Request& request, int directory) {
  std::call_once(leftovers_removed_, [&] { remove_leftovers(directory); });
  const KeyLock lock(directory, request.entry, settings_.patience);
  if (lock.state() == KeyLock::State::TimedOut) {
    warn_once("cache lock", concat("kernel cache: another process has been compiling '", request.source.name, "' for ",
                                   static_cast<double>(settings_.patience.count()) / 1000,
                                   " s: it is compiled here, too, and not kept"));
    return compiler_.compile(request.source);
  }
  // Meanwhile another process may have made it.
  Cubin cubin;
  std::string problem;
  if (load(request, directory, cubin, problem)) return cubin;
  if (!problem.empty()) replace_bad(request, directory, problem);
  cubin = compiler_.compile(request.source);
  keep(request, directory, cubin);
  return cubin;
}

void KernelCache::keep(const Request& request, int directory, const Cubin& cubin) {
  // While it was compiled the directory may have been removed: then a new one takes its place.
  CacheDirectory renewed;
  struct stat status{};
  if (::fstat(directory, &status) == 0 && status.st_nlink == 0) {
    renewed = open_cache_directory(settings_, true);
    if (renewed.descriptor) directory = renewed.descriptor.get();
  }
  const std::string problem = write_entry(directory, request.entry, request.key, request.inputs, cubin);
  if (problem.empty()) return;
  warn_once("cache write " + settings_.directory,
            concat("kernel cache: '", settings_.directory, "' cannot be written (", problem,
                   "): kernels stay in memory and are compiled anew in each process: free its disk, or set "
                   "CODA_CACHE_DIR to another directory"));
}

bool KernelCache::load(const Request& request, int directory, Cubin& cubin, std::string& problem) const {
  Entry entry = read_entry(directory, request.entry);
  // Sound in itself, it may still be one that somebody made up.
  if (entry.state == EntryState::Good && (entry.text != request.source.text || entry.arch != request.source.arch)) {
    entry.state = EntryState::Bad;
    entry.problem = concat("it is for ", entry.arch, ", expected ", request.source.arch);
    if (entry.arch == request.source.arch) entry.problem = "kernel.cu is another kernel's";
  }
  if (entry.state == EntryState::Bad) problem = std::move(entry.problem);
  if (entry.state != EntryState::Good) return false;
  cubin = std::move(entry.cubin);
  return true;
}

void KernelCache::replace_bad(const Request& request, int directory, const std::string& problem) {
  const std::string stays = remove_entry(directory, request.entry);
  warn_once("cache entry " + path_of(request.entry),
            concat("kernel cache: '", path_of(request.entry), "' is not used: ", problem,
                   stays.empty() ? ": the kernel is compiled again and replaces it"
                                 : concat(": it cannot be removed (", stays, "), remove it by hand")));
}

void KernelCache::warn_unused(const std::string& problem) const {
  const std::string& path = settings_.directory;
  warn_once("cache directory " + path,
            concat("kernel cache: ", path.empty() ? "no directory is used: " : concat("'", path, "' is not used: "),
                   problem, ": kernels are compiled anew in each process: ", kDirectoryCure));
}

std::string KernelCache::path_of(const std::string& entry) const { return settings_.directory + "/" + entry; }

}  // namespace coda::cuda
