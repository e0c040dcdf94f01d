#include "cuda/compile/cache_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "core/cache_root.h"
#include "core/check.h"

namespace coda::cuda {
namespace {

namespace fs = std::filesystem;

CacheMode mode_of(const std::string& text) {
  if (text == "off") return CacheMode::Off;
  return text == "ro" ? CacheMode::ReadOnly : CacheMode::ReadWrite;
}

// Like mkdir -p, with the mode the XDG specification asks for; returns 0 or the errno.
int make_directories(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    if (::mkdir(path.substr(0, at).c_str(), S_IRWXU) != 0 && errno != EEXIST) {
      // A directory above may be one we may not write into and that exists all the same, on a read-only disk.
      struct stat status{};
      const int problem = errno;
      if (::stat(path.substr(0, at).c_str(), &status) != 0) return problem;
    }
  return ::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST ? 0 : errno;
}

std::string octal(mode_t mode) {
  std::array<char, 12> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), mode, 8).ptr};
}

// Why a directory of these properties must not be used, or empty.
std::string trust_problem(const struct stat& status, CacheMode mode) {
  const mode_t others = mode == CacheMode::ReadOnly ? S_IWOTH : S_IWGRP | S_IWOTH;
  if ((status.st_mode & others) != 0)
    return concat("others can write into it (mode ", octal(status.st_mode & 07777), ")");
  if (mode != CacheMode::ReadOnly && status.st_uid != ::geteuid())
    return concat("it belongs to user ", status.st_uid, ", this process runs as user ", ::geteuid());
  return {};
}

std::string open_problem(int error) {
  struct Row {
    int error;
    const char* text;
  };
  for (const Row& row : {Row{ELOOP, "it is a symbolic link"}, Row{ENOTDIR, "it is no directory"}})
    if (row.error == error) return row.text;
  return concat("it cannot be opened (", text_of_error(error), ")");
}

}  // namespace

std::string text_of_error(int error) { return std::generic_category().message(error); }

CacheSettings cache_settings(const Options& options) { return {mode_of(options.cache), cache_root(options)}; }

CacheDirectory open_cache_directory(const CacheSettings& settings, bool create) {
  CacheDirectory opened;
  const std::string& path = settings.directory;
  if (path.empty()) {
    opened.problem = "none of CODA_CACHE_DIR, XDG_CACHE_HOME and HOME names one";
    return opened;
  }
  if (create)
    if (const int error = make_directories(path); error != 0) {
      opened.problem = concat("it cannot be created (", text_of_error(error), ")");
      return opened;
    }
  Descriptor directory = open_folder(AT_FDCWD, path);
  if (!directory) {
    const int error = errno;
    struct stat status{};
    // With O_DIRECTORY a link, too, is ENOTDIR.
    const bool link = ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
    if (error != ENOENT) opened.problem = open_problem(link ? ELOOP : error);
    return opened;
  }
  struct stat status{};
  if (::fstat(directory.get(), &status) != 0)
    opened.problem = open_problem(errno);
  else
    opened.problem = trust_problem(status, settings.mode);
  if (opened.problem.empty()) opened.descriptor = std::move(directory);
  return opened;
}

std::string cache_write_problem(const CacheSettings& settings) {
  // The nearest directory that exists decides.
  fs::path path = settings.directory;
  struct stat status{};
  while (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) return concat("it cannot be created (", text_of_error(errno), ")");
    if (path == path.parent_path()) break;
    path = path.parent_path();
  }
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
  return concat(path == settings.directory ? "it cannot be written (" : "it cannot be created (", text_of_error(errno),
                ")");
}

bool is_trusted_entry(int directory, int entry) {
  struct stat above{}, status{};
  if (::fstat(directory, &above) != 0 || ::fstat(entry, &status) != 0) return false;
  return status.st_uid == above.st_uid && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace coda::cuda
