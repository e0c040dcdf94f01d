// Text of a kernel as it grows: indentation, and names that collide with nothing.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/check.h"

namespace coda::cuda {

class Writer {
 public:
  void line() { text_ += "\n"; }

  /// One line of its parts, indented.
  template <class... Parts>
  void line(const Parts&... parts) {
    text_ += std::string(static_cast<std::size_t>(2 * depth_), ' ') + concat(parts...) + "\n";
  }

  /// A line that opens a block, and the line that closes it.
  template <class... Parts>
  void open(const Parts&... parts) {
    line(parts..., " {");
    ++depth_;
  }
  void close(std::string_view after = "") {
    --depth_;
    line("}", after);
  }

  /// A line at the left margin: a preprocessor line.
  void margin(std::string_view text) { text_ += std::string(text) + "\n"; }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_ = 0;
};

/// Names of one scope: the first user of a name has it, the next gets a number behind it. Words of the language and
/// functions of the device text are taken from the start.
class Names {
 public:
  Names();
  std::string unique(std::string_view wanted);

 private:
  std::map<std::string, int, std::less<>> used_;
};

/// A number as a float literal that reads back as the same float: "0.5f", "INFINITY".
std::string float_literal(double value);

}  // namespace coda::cuda
