// How far something is: a bar on a terminal, a line for each stage done elsewhere. To stderr.
#pragma once

#include <string>
#include <string_view>

namespace coda::cli {

class Progress {
 public:
  /// `what` begins each line: "M 4096".
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::string_view stage, int done, int total);

 private:
  std::string what_;
  bool terminal_;
  std::size_t width_ = 0;  ///< of the line that stands on the terminal
};

}  // namespace coda::cli
