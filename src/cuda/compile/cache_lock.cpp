#include "cuda/compile/cache_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace coda::cuda {
namespace {

using Clock = std::chrono::steady_clock;

Descriptor open_lock(int directory, const std::string& path) {
  ::mkdirat(directory, kLockFolder, S_IRWXU);
  return Descriptor(::openat(directory, path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

// Asks again and again, less often as time goes by: flock itself has no timeout.
KeyLock::State wait_for(int file, Clock::time_point deadline) {
  constexpr std::chrono::milliseconds longest{50};
  std::chrono::milliseconds pause{1};
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return KeyLock::State::Unavailable;
    if (Clock::now() >= deadline) return KeyLock::State::TimedOut;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, longest);
  }
  return KeyLock::State::Held;
}

}  // namespace

KeyLock::KeyLock(int directory, const std::string& key, std::chrono::milliseconds patience)
    : directory_(directory), path_(std::string(kLockFolder) + "/" + key) {
  const Clock::time_point deadline = Clock::now() + patience;
  do {
    file_ = open_lock(directory_, path_);
    state_ = file_ ? wait_for(file_.get(), deadline) : State::Unavailable;
    // Who held it before has removed the file: its lock is no longer the one others see.
  } while (state_ == State::Held && !is_current());
}

KeyLock::~KeyLock() {
  if (state_ != State::Held) return;
  ::unlinkat(directory_, path_.c_str(), 0);
  // Closing is not enough: a child forked meanwhile has the file open, too.
  ::flock(file_.get(), LOCK_UN);
}

bool KeyLock::is_current() const {
  struct stat ours{}, named{};
  return ::fstat(file_.get(), &ours) == 0 && ::fstatat(directory_, path_.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

void remove_free_locks(int directory) {
  const Descriptor folder = open_folder(directory, kLockFolder);
  if (!folder) return;
  for (const std::string& name : names_in(folder.get()))
    const KeyLock lock(directory, name, std::chrono::milliseconds(0));  // takes the file along when it is free
  ::unlinkat(directory, kLockFolder, AT_REMOVEDIR);
}

}  // namespace coda::cuda
