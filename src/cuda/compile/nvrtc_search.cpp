// Where an NVRTC may be: the list for open_nvrtc, made without Python's help.
#include <dirent.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <mutex>
#include <string_view>

#include "core/options.h"
#include "cuda/compile/nvrtc.h"
#include "cuda/compile/nvrtc_library.h"

namespace coda::cuda {
namespace {

// Where a toolkit keeps what it has for this kind of machine.
#if defined(__aarch64__)
constexpr const char* kToolkitTarget = "/usr/local/cuda/targets/sbsa-linux/lib";
#else
constexpr const char* kToolkitTarget = "/usr/local/cuda/targets/x86_64-linux/lib";
#endif

struct AddedFolders {
  std::mutex mutex;
  std::vector<std::string> folders;
};

AddedFolders& added_folders() {
  static AddedFolders instance;
  return instance;
}

void add_new(std::vector<std::string>& folders, std::string folder) {
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(std::move(folder));
}

// The package folders of a Python prefix: lib/python3.N/site-packages, for whatever N there is.
void add_prefix(std::vector<std::string>& folders, const std::string& prefix) {
  if (prefix.empty()) return;
  const std::string library = prefix + "/lib";
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(library.c_str()), ::closedir);
  if (!directory) return;
  std::vector<std::string> found;
  while (const dirent* item = ::readdir(directory.get())) {
    const std::string_view name = item->d_name;
    if (!name.starts_with("python3")) continue;
    for (const char* packages : {"/site-packages", "/dist-packages"}) {
      std::string folder = library + "/" + std::string(name) + packages;
      if (::access(folder.c_str(), X_OK) == 0) found.push_back(std::move(folder));
    }
  }
  std::sort(found.begin(), found.end());
  for (std::string& folder : found) add_new(folders, std::move(folder));
}

// The package folders this process has loaded libraries from (numpy's, torch's or coda's own): those the interpreter
// really uses, whatever way its environment was entered.
int add_loaded(dl_phdr_info* info, std::size_t, void* data) {
  const std::string_view path = info->dlpi_name;
  for (const std::string_view packages : {"/site-packages/", "/dist-packages/"})
    if (const std::size_t at = path.rfind(packages); at != std::string_view::npos)
      add_new(*static_cast<std::vector<std::string>*>(data), std::string(path.substr(0, at + packages.size() - 1)));
  return 0;
}

// Prefix of the running program, /usr for /usr/bin/python3; empty when it is not below a bin folder.
std::string program_prefix() {
  char buffer[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", buffer, sizeof buffer);
  if (length <= 0) return {};
  const std::string_view path(buffer, static_cast<std::size_t>(length));
  const std::size_t bin = path.rfind("/bin/");
  return bin == std::string_view::npos ? "" : std::string(path.substr(0, bin));
}

}  // namespace

void add_nvrtc_folder(std::string folder) {
  AddedFolders& added = added_folders();
  const std::lock_guard lock(added.mutex);
  add_new(added.folders, std::move(folder));
}

NvrtcSearch nvrtc_search() {
  NvrtcSearch search;
  search.file = options().nvrtc;
  search.folders = {"/usr/local/cuda/lib64", kToolkitTarget};
  {
    AddedFolders& added = added_folders();
    const std::lock_guard lock(added.mutex);
    for (const std::string& folder : added.folders) add_new(search.folders, folder);
  }
  ::dl_iterate_phdr(add_loaded, &search.folders);
  add_prefix(search.folders, options().virtual_env);
  add_prefix(search.folders, program_prefix());
  return search;
}

}  // namespace coda::cuda
