#include "cuda/compile/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace coda::cuda {
namespace {

// No file of the cache comes near; what is larger is not read into memory.
constexpr off_t kLargestFile = off_t{1} << 28;

int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? EIO : errno;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(file) == 0 ? 0 : errno;
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Descriptor open_folder(int directory, const std::string& name) {
  return Descriptor(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

int read_file(int directory, const std::string& name, std::string& content) {
  // Not blocking: a pipe in a file's place would make open wait for a writer.
  const Descriptor file(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return errno;
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EINVAL;
  if (status.st_size > kLargestFile) return EFBIG;
  content.resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  content.resize(done);
  return 0;
}

int write_file(int directory, const std::string& name, std::string_view content) {
  // Beyond this limit the kernel does not answer a write but kills the process (SIGXFSZ).
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && content.size() > limit.rlim_cur) return EFBIG;
  const Descriptor file(
      ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file) return errno;
  return write_all(file.get(), content);
}

std::vector<std::string> names_in(int directory) {
  std::vector<std::string> names;
  // A descriptor of its own: reading moves the position, and closedir closes it.
  const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own), ::closedir);
  if (!stream) {
    ::close(own);
    return names;
  }
  while (const dirent* item = ::readdir(stream.get()))
    if (std::strcmp(item->d_name, ".") != 0 && std::strcmp(item->d_name, "..") != 0) names.emplace_back(item->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

int remove_all(int directory, const std::string& name) {
  if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return 0;
  // A folder: EISDIR, or EPERM as POSIX has it.
  if (errno != EISDIR && errno != EPERM) return errno;
  const Descriptor folder = open_folder(directory, name);
  if (!folder) return errno;
  int first = 0;
  for (const std::string& inside : names_in(folder.get()))
    if (const int problem = remove_all(folder.get(), inside); problem != 0 && first == 0) first = problem;
  if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
  return first != 0 ? first : errno;
}

}  // namespace coda::cuda
