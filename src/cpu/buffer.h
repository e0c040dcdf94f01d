// Scratch memory that grows and is kept: a warmed call allocates nothing.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace coda::cpu {

class Buffer {
 public:
  /// At least `bytes` bytes, 64-byte aligned, zeroed when new; what was there before may be lost.
  void* reserve(std::size_t bytes) {
    if (bytes > capacity_) {
      const std::size_t alignment = bytes >= kHugePage / 8 ? kHugePage : kLine;
      const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
      memory_.reset();
      capacity_ = 0;
      memory_.reset(std::aligned_alloc(alignment, rounded));
      if (memory_ == nullptr) throw std::bad_alloc();
      // A kernel walks a page a row: large pages save it the address translations. Refused where there are none.
      if (alignment == kHugePage) static_cast<void>(madvise(memory_.get(), rounded, MADV_HUGEPAGE));
      __builtin_memset(memory_.get(), 0, rounded);
      capacity_ = rounded;
    }
    return memory_.get();
  }

  void* data() const { return memory_.get(); }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace coda::cpu
