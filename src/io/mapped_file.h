// A file mapped for reading.
#pragma once

#include <cstddef>
#include <string>

namespace coda {

class MappedFile {
 public:
  /// Errors: FileError naming path and reason.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const unsigned char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace coda
