#include "cuda/compile/nvrtc_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include "core/check.h"

namespace coda::cuda {
namespace {

template <class Function>
void load(void* library, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
}

// Gives the name of the first function the library lacks, or nothing.
std::string load_all(void* library, NvrtcFunctions& call) {
  std::string missing;
  load(library, "nvrtcVersion", call.version, missing);
  load(library, "nvrtcGetNumSupportedArchs", call.count_archs, missing);
  load(library, "nvrtcGetSupportedArchs", call.archs, missing);
  load(library, "nvrtcGetErrorString", call.error_string, missing);
  load(library, "nvrtcCreateProgram", call.create_program, missing);
  load(library, "nvrtcDestroyProgram", call.destroy_program, missing);
  load(library, "nvrtcCompileProgram", call.compile_program, missing);
  load(library, "nvrtcGetCUBINSize", call.cubin_size, missing);
  load(library, "nvrtcGetCUBIN", call.cubin, missing);
  load(library, "nvrtcGetProgramLogSize", call.log_size, missing);
  load(library, "nvrtcGetProgramLog", call.log, missing);
  return missing;
}

// The loaded object that starts at `base`, and its build id once found.
struct BuildId {
  ElfW(Addr) base = 0;
  std::string hex;
};

std::string hex_of(const unsigned char* bytes, std::size_t count) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

std::string build_id_in(const unsigned char* notes, std::size_t size) {
  const auto padded = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const std::size_t content = sizeof note + padded(note.n_namesz);
    const std::size_t next = content + padded(note.n_descsz);
    if (next > size) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes + sizeof note, "GNU", 4) == 0)
      return hex_of(notes + content, note.n_descsz);
    notes += next;
    size -= next;
  }
  return {};
}

int find_build_id(dl_phdr_info* info, std::size_t, void* data) {
  auto& wanted = *static_cast<BuildId*>(data);
  if (info->dlpi_addr != wanted.base) return 0;
  for (int i = 0; i < info->dlpi_phnum && wanted.hex.empty(); ++i) {
    const ElfW(Phdr) & segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE)
      wanted.hex =
          build_id_in(reinterpret_cast<const unsigned char*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  return 1;
}

// The version has no patch level in it, and two builds of one version need not make the same code.
void identify(void* library, NvrtcLibrary& opened) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return;
  opened.path = map->l_name;
  BuildId id{map->l_addr, {}};
  ::dl_iterate_phdr(find_build_id, &id);
  struct stat status{};
  if (id.hex.empty() && ::stat(opened.path.c_str(), &status) == 0) id.hex = concat(status.st_size, " bytes");
  opened.build = id.hex;
}

// What open_nvrtc tried: the library once one is usable, and why others were not.
struct Attempt {
  std::optional<NvrtcLibrary> opened;
  std::string refusals;  ///< "path (reason), path (reason)": of files that exist

  void refuse(const std::string& what, const std::string& why) {
    const std::string refusal = concat(what, " (", why, ")");
    // The loader may know the same one twice, as loaded and by name.
    if (refusals.find(refusal) == std::string::npos) refusals += (refusals.empty() ? "" : ", ") + refusal;
  }
};

// Tries one library; a handle that is no usable NVRTC stays open: unloading code others may have loaded, too, saves
// nothing.
void try_library(Attempt& attempt, const std::string& what, void* library) {
  if (library == nullptr) return attempt.refuse(what, ::dlerror());
  NvrtcLibrary found;
  if (const std::string missing = load_all(library, found.call); !missing.empty())
    return attempt.refuse(what, "it has no function " + missing);
  if (found.call.version(&found.major, &found.minor) != 0) return attempt.refuse(what, "it does not tell its version");
  if (const std::string problem = nvrtc_version_problem(found.major, found.minor); !problem.empty())
    return attempt.refuse(what, problem);
  identify(library, found);
  attempt.opened = std::move(found);
}

// Asks the loader for a name; a name it does not know is no refusal.
void try_names(Attempt& attempt, const std::vector<std::string>& names, int flags) {
  for (const std::string& name : names) {
    if (attempt.opened) return;
    if (void* library = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL | flags)) try_library(attempt, name, library);
  }
}

void try_folder(Attempt& attempt, const std::string& folder, const std::vector<std::string>& names) {
  for (const char* below : {"", "/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"})
    for (const std::string& name : names) {
      const std::string path = concat(folder, below, "/", name);
      if (attempt.opened || ::access(path.c_str(), R_OK) != 0) continue;
      try_library(attempt, path, ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL));
    }
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

}  // namespace

std::string NvrtcLibrary::version() const { return concat(major, ".", minor); }

std::string nvrtc_version_problem(int major, int minor) {
  if (major >= kOldestNvrtcMajor) return {};
  return concat("its version is ", major, ".", minor, ", older than ", kOldestNvrtcMajor, ".0");
}

NvrtcLibrary open_nvrtc(const NvrtcSearch& search) {
  Attempt attempt;
  if (!search.file.empty()) {
    try_library(attempt, "", ::dlopen(search.file.c_str(), RTLD_LAZY | RTLD_LOCAL));
    REQUIRE(ValueError, attempt.opened, "environment: CODA_NVRTC is '", search.file, "', no usable NVRTC",
            attempt.refusals, ": set it to the file of an NVRTC library of version ", kOldestNvrtcMajor,
            ".0 or newer, or unset it");
    return *attempt.opened;
  }
  try_names(attempt, search.names, RTLD_NOLOAD);
  try_names(attempt, search.names, 0);
  for (const std::string& folder : search.folders) try_folder(attempt, folder, search.names);
  REQUIRE(NotImplementedError, attempt.opened, "cuda: no NVRTC, the compiler of kernels, was found: looked for ",
          joined(search.names), " where the loader looks and in ", joined(search.folders),
          attempt.refusals.empty() ? "" : "; not usable: ", attempt.refusals,
          ": pip install nvidia-cuda-nvrtc, install the CUDA toolkit, or set CODA_NVRTC to the library file");
  return *attempt.opened;
}

const NvrtcLibrary& nvrtc() {
  static std::mutex mutex;
  static std::optional<NvrtcLibrary> opened;
  const std::lock_guard lock(mutex);
  if (!opened) opened = open_nvrtc(nvrtc_search());
  return *opened;
}

}  // namespace coda::cuda
