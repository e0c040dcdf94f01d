// How an output is cut into tasks: panels of columns, and blocks of rows within them.
#pragma once

#include <cstdint>
#include <vector>

namespace coda::cpu {

/// What the cut depends on, for each segment of the output.
struct Region {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_unit = 1;  ///< blocks are multiples of these, the last of the region apart
  std::int64_t col_unit = 1;
  int accumulators = 0;
};

struct Task {
  int region = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t col = 0;
  std::int64_t cols = 0;
};

/// Tasks that cover all regions for `threads` threads, into `tasks`. A region without rows or columns gets tasks too:
/// values of its other shape are stored still.
void cut(const std::vector<Region>& regions, int threads, std::vector<Task>& tasks);

}  // namespace coda::cpu
