#include "cli/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/check.h"

namespace coda::cli {

std::string table_text(const std::vector<std::vector<std::string>>& rows, std::string_view alignment) {
  std::vector<std::size_t> widths(alignment.size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += concat(i > 0 ? "  " : "", alignment[i] == 'r' ? padding + row[i] : row[i] + padding);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB"};
  if (bytes < 1024) return fixed(bytes, 0) + " B";
  std::size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return concat(fixed(bytes, 1), " ", kUnits[unit]);
}

}  // namespace coda::cli
