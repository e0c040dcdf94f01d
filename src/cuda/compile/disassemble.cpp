#include "cuda/compile/disassemble.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "core/check.h"
#include "cuda/compile/nvrtc.h"
#include "cuda/compile/nvrtc_library.h"

namespace coda::cuda {
namespace {

namespace fs = std::filesystem;

// A file that lives as long as this.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) : path_(fs::temp_directory_path() / "coda_XXXXXX") {
    const int file = ::mkstemp(path_.data());
    bool whole = file >= 0;
    for (std::size_t at = 0; whole && at < content.size();) {
      const ssize_t written = ::write(file, content.data() + at, content.size() - at);
      whole = written > 0;
      at += static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    }
    if (file >= 0) ::close(file);
    if (!whole) {
      remove();
      throw FileError(
          concat("dump: '", path_, "' cannot be written: check TMPDIR and its free space, or give --no-sass"));
    }
  }
  ~TemporaryFile() { remove(); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  void remove() const { ::unlink(path_.c_str()); }

  std::string path_;
};

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 65536> piece{};
  for (ssize_t got = 1; got > 0;) {
    got = ::read(descriptor, piece.data(), piece.size());
    if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno == EINTR) got = 1;
  }
  return text;
}

struct Output {
  int error = 0;   ///< errno of starting it
  int status = 0;  ///< as waitpid gives it
  std::string text;
};

// Runs a program, looked for on PATH when its name has no slash; its errors go where ours go.
Output run(const std::string& program, const std::string& file) {
  std::string name = program, option = "-c", argument = file;
  const std::array<char*, 4> arguments{name.data(), option.data(), argument.data(), nullptr};
  Output output;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {errno, 0, ""};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  output.error = ::posix_spawnp(&child, name.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (output.error == 0) {
    output.text = read_all(ends[0]);
    while (::waitpid(child, &output.status, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(ends[0]);
  return output;
}

// Where it may be: the wheel puts it beside NVRTC's, into a folder that is not on PATH; a toolkit has it in bin.
std::vector<std::string> places() {
  const fs::path beside = fs::path(nvrtc_path()).parent_path().parent_path() / "bin/nvdisasm";
  std::vector<std::string> all{"nvdisasm", beside.string()};
  for (const std::string& folder : nvrtc_search().folders) all.push_back(folder + "/nvidia/cu13/bin/nvdisasm");
  return all;
}

}  // namespace

std::optional<std::string> disassemble(const std::string& cubin) {
  const TemporaryFile file(cubin);
  for (const std::string& place : places()) {
    Output output = run(place, file.path());
    if (output.error == ENOENT || output.error == ENOTDIR) continue;
    REQUIRE(FileError, output.error == 0, "dump: ", place, " cannot be run (",
            std::generic_category().message(output.error), "): repair it, or give --no-sass");
    REQUIRE(FileError, WIFEXITED(output.status) && WEXITSTATUS(output.status) == 0, "dump: ", place,
            " cannot read the kernel: take one of a toolkit as new as NVRTC ", nvrtc_version(), ", or give --no-sass");
    return std::move(output.text);
  }
  return {};
}

}  // namespace coda::cuda
