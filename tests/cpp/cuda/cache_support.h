// What the tests of the kernel cache share: a compiler that only pretends, caches with settings of their own,
// processes.
#pragma once

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/compile/kernel_cache.h"
#include "support/temporary_folder.h"

namespace coda::testing_support {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// Bytes with the header of a cubin for sm_<number>, as toolkits from 13 on write it, and `content` behind.
inline std::string fake_cubin(const std::string& content, int number = 90) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_ABIVERSION] = 8;
  header.e_machine = 190;
  header.e_flags = 0x06000004u | static_cast<unsigned>(number) << 8;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + content;
}

/// A compiler whose cubin contains the text, and that counts what it is asked for: in this process, and as files of a
/// folder when there are several.
struct FakeCompiler {
  std::shared_ptr<std::atomic<int>> count = std::make_shared<std::atomic<int>>(0);
  std::string marks;  ///< folder for one file a compilation; empty: none
  std::string build = "13.0 fake";
  std::function<void()> meanwhile;  ///< called by each compilation

  cuda::Compiler compiler() const {
    return {[self = *this](const cuda::KernelSource& source) {
              const int number = ++*self.count;
              if (!self.marks.empty())
                std::ofstream(self.marks + "/" + std::to_string(::getpid()) + "-" + std::to_string(number));
              if (self.meanwhile) self.meanwhile();
              return cuda::Cubin{fake_cubin(source.text), "ptxas info    : Used 8 registers\n"};
            },
            [build = build] { return build; }};
  }
};

/// True where kernels can be compiled in earnest.
inline bool has_nvrtc() {
  try {
    cuda::nvrtc_version();
    return true;
  } catch (const Error&) {
    return false;
  }
}

inline int files_in(const std::string& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

inline cuda::KernelSource source_of(const std::string& text, const std::string& name = "kernel") {
  return {name, text, "sm_90a"};
}

inline cuda::CacheSettings settings_of(const std::string& directory, cuda::CacheMode mode = cuda::CacheMode::ReadWrite,
                                       std::chrono::milliseconds patience = 30s) {
  return {mode, directory, patience};
}

/// A folder for a test, and in it a directory for the cache, which does not exist yet, and a fake compiler.
class CacheTest : public testing::Test {
 protected:
  cuda::KernelCache cache(cuda::CacheMode mode = cuda::CacheMode::ReadWrite) const {
    return cuda::KernelCache(settings_of(directory(), mode), compiler_.compiler());
  }
  std::string directory() const { return folder_.path() + "/cache"; }
  std::string entry_path(const cuda::KernelSource& source) const {
    return directory() + "/" + cuda::entry_name(source.name, cache().key(source));
  }
  int compilations() const { return *compiler_.count; }

  TemporaryFolder folder_;
  FakeCompiler compiler_;
};

inline std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

/// Runs a function in a process of its own; what it returns is the exit status.
inline pid_t start(const std::function<int()>& run) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(60);  // a hanging child fails instead of hanging the tests
  int status = 99;
  try {
    status = run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
  }
  ::_exit(status);
}

/// The exit status, or minus the signal that ended the process.
inline int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

inline bool wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(2ms);
  }
  return false;
}

}  // namespace coda::testing_support
