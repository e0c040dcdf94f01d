#include "cli/progress.h"

#include <unistd.h>

#include <iostream>

#include "core/check.h"

namespace coda::cli {

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (width_ > 0) std::cerr << "\r" << std::string(width_, ' ') << "\r" << std::flush;
}

void Progress::show(std::string_view stage, int done, int total) {
  constexpr int kCells = 24;
  if (!terminal_) {
    if (done == total) std::cerr << what_ << ": " << stage << " " << done << "/" << total << std::endl;
    return;
  }
  const int full = total > 0 ? kCells * done / total : kCells;
  const std::string bar =
      std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(kCells - full), '.');
  const std::string line = concat(what_, ": [", bar, "] ", stage, " ", done, "/", total);
  const std::size_t shorter = width_ > line.size() ? width_ - line.size() : 0;
  std::cerr << "\r" << line << std::string(shorter, ' ') << std::flush;
  width_ = line.size();
}

}  // namespace coda::cli
