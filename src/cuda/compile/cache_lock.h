// One process at a time compiles a key: a file lock, which ends with its process however that ends.
#pragma once

#include <chrono>
#include <string>

#include "cuda/compile/files.h"

namespace coda::cuda {

/// Folder of the lock files, in the cache's directory.
inline constexpr const char* kLockFolder = ".locks";

class KeyLock {
 public:
  enum class State {
    Held,
    TimedOut,     ///< another process has held it all the time
    Unavailable,  ///< the file system cannot lock, or the file cannot be made
  };

  /// Waits for the lock of `key`. `directory` is the cache's, and stays open longer than this.
  KeyLock(int directory, const std::string& key, std::chrono::milliseconds patience);
  ~KeyLock();
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;

  State state() const { return state_; }

 private:
  bool is_current() const;

  int directory_;
  std::string path_;
  Descriptor file_;
  State state_ = State::Unavailable;
};

/// Removes lock files nobody holds.
void remove_free_locks(int directory);

}  // namespace coda::cuda
