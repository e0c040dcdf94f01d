// Files relative to an open directory, for the cache. Nothing throws: a failure is its errno.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coda::cuda {

/// An open file or directory, closed with this.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }

  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_;
};

/// Opens a directory that is one: no symbolic link is followed at the last component. errno tells why not.
Descriptor open_folder(int directory, const std::string& name);

/// Reads a regular file; returns 0 or the errno.
int read_file(int directory, const std::string& name, std::string& content);

/// Creates a file only the user can read, with its content on the medium; returns 0 or the errno.
int write_file(int directory, const std::string& name, std::string_view content);

/// Names in a directory, but "." and "..", sorted; empty when it cannot be read.
std::vector<std::string> names_in(int directory);

/// Removes a file, a link, or a folder with all below it; returns 0 or the first errno. What does not exist is removed.
int remove_all(int directory, const std::string& name);

}  // namespace coda::cuda
