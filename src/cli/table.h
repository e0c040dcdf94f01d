// A table for the terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coda::cli {

/// Lines of columns, each as wide as its widest cell, two spaces apart. `alignment` has a letter a column: 'l' or 'r'.
std::string table_text(const std::vector<std::vector<std::string>>& rows, std::string_view alignment);

/// "0.1250" with that many digits behind the point.
std::string fixed(double value, int digits);

/// "812 B", "1.5 KiB", "12.0 MiB".
std::string bytes_text(double bytes);

}  // namespace coda::cli
