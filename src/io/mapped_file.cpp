#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "coda/safetensors.h"
#include "core/check.h"

namespace coda {
namespace {

struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  REQUIRE(FileError, file.value >= 0, "open: file '", path, "' cannot be opened (", std::strerror(errno),
          "): check the path and its permissions");
  struct stat status{};
  REQUIRE(FileError, ::fstat(file.value, &status) == 0, "open: file '", path, "' cannot be examined (",
          std::strerror(errno), ")");
  REQUIRE(FileError, S_ISREG(status.st_mode), "open: '", path, "' is ",
          S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe", ", expected a regular file");
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.value, 0);
  REQUIRE(FileError, mapping != MAP_FAILED, "open: file '", path, "' cannot be mapped (", std::strerror(errno), ")");
  data_ = static_cast<const unsigned char*>(mapping);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<unsigned char*>(data_), size_);
}

std::string read_text_file(const std::string& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

}  // namespace coda
