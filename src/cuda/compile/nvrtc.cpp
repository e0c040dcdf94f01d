#include "cuda/compile/nvrtc.h"

#include <charconv>
#include <vector>

#include "core/check.h"
#include "core/options.h"
#include "cuda/compile/cubin_header.h"
#include "cuda/compile/device_files.h"
#include "cuda/compile/nvrtc_library.h"

namespace coda::cuda {
namespace {

// C++17 is the newest that every supported NVRTC has in full; generic lambdas cannot be marked __device__, so all code
// is for the device; -v puts registers and spills into the log.
std::vector<std::string> base_options(std::string_view arch) {
  return {concat("--gpu-architecture=", arch), "--std=c++17", "-default-device", "--ptxas-options=-v"};
}

/// A program of NVRTC, destroyed with this.
class Compilation {
 public:
  Compilation(const NvrtcLibrary& library, const std::string& name, const std::string& text) : call_(library.call) {
    std::vector<std::string> paths;
    std::vector<const char*> headers, names;
    for (const DeviceFile& file : device_files()) paths.emplace_back(file.path);
    for (const std::string& path : paths) names.push_back(path.c_str());
    for (const DeviceFile& file : device_files()) headers.push_back(file.text.data());
    const int result = call_.create_program(&program_, text.c_str(), name.c_str(), static_cast<int>(headers.size()),
                                            headers.data(), names.data());
    INVARIANT(result == 0, "cuda: NVRTC takes no text of kernel '", name, "' (", call_.error_string(result), ")");
  }
  ~Compilation() { call_.destroy_program(&program_); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  int run(const std::vector<std::string>& options) {
    std::vector<const char*> texts;
    for (const std::string& option : options) texts.push_back(option.c_str());
    return call_.compile_program(program_, static_cast<int>(texts.size()), texts.data());
  }

  std::string log() const { return taken(call_.log_size, call_.log, true); }
  std::string cubin() const { return taken(call_.cubin_size, call_.cubin, false); }

 private:
  using Size = int (*)(void*, std::size_t*);
  using Copy = int (*)(void*, char*);

  // Empty when NVRTC has none; `text` drops the zero byte at its end.
  std::string taken(Size size_of, Copy copy, bool text) const {
    std::size_t size = 0;
    if (size_of(program_, &size) != 0 || size == 0) return {};
    std::string bytes(size, '\0');
    if (copy(program_, bytes.data()) != 0) return {};
    if (text) bytes.resize(bytes.find('\0') == std::string::npos ? size : bytes.find('\0'));
    return bytes;
  }

  const NvrtcFunctions& call_;
  NvrtcFunctions::Program program_ = nullptr;
};

void require_arch(const NvrtcLibrary& library, std::string_view arch) {
  int count = 0;
  std::vector<int> known;
  if (library.call.count_archs(&count) == 0 && count > 0) {
    known.resize(static_cast<std::size_t>(count));
    if (library.call.archs(known.data()) != 0) known.clear();
  }
  const int wanted = arch_number(arch);
  std::string listed;
  for (const int number : known) {
    if (number == wanted) return;
    listed += concat(listed.empty() ? "" : ", ", "sm_", number);
  }
  throw NotImplementedError(concat("cuda: NVRTC ", library.version(), " (", library.path, ") cannot compile for ", arch,
                                   ", expected one of ", listed, ": use another with CODA_NVRTC"));
}

}  // namespace

std::string nvrtc_version() { return nvrtc().version(); }

std::string nvrtc_path() { return nvrtc().path; }

std::string nvrtc_build() { return concat(nvrtc().version(), " ", nvrtc().build); }

std::string compile_options(std::string_view arch) {
  std::string all;
  for (const std::string& option : base_options(arch)) all += (all.empty() ? "" : " ") + option;
  return options().nvrtc_flags.empty() ? all : concat(all, " ", options().nvrtc_flags);
}

std::string kernel_symbol(std::string_view name) { return concat("coda_", name); }

Cubin compile(std::string_view name, std::string_view text, std::string_view arch) {
  const NvrtcLibrary& library = nvrtc();
  require_arch(library, arch);
  Compilation program(library, concat(name, ".cu"), std::string(text));
  std::vector<std::string> with_symbol = base_options(arch);
  with_symbol.push_back(concat("-DCODA_KERNEL=", kernel_symbol(name)));
  const int result = program.run(with_symbol);
  Cubin cubin{{}, program.log()};
  INVARIANT(result == 0, "cuda: kernel '", name, "' does not compile for ", arch, " with NVRTC ", library.version(),
            " (", library.call.error_string(result), "):\n", cubin.log);
  cubin.image = program.cubin();
  const std::string problem = cubin_problem(cubin.image, arch);
  INVARIANT(problem.empty(), "cuda: NVRTC ", library.version(), " made no cubin of kernel '", name, "': ", problem);
  return cubin;
}

}  // namespace coda::cuda
