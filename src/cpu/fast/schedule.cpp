#include "cpu/fast/schedule.h"

#include <algorithm>
#include <array>
#include <limits>

namespace coda::cpu {
namespace {

struct Size {
  std::int64_t rows;
  std::int64_t cols;
};

// Accumulators of a task, in floats, so that they stay in a second-level cache with a block of B. Columns come in whole
// micro-tiles. Elementwise tasks only need to be few.
constexpr std::int64_t kProductFloats = 128 * 1024;
constexpr std::array<std::int64_t, 6> kProductCols = {64, 128, 192, 256, 320, 384};
constexpr std::array<std::int64_t, 4> kProductRows = {512, 256, 128, 64};
constexpr Size kElementwise = {64, 1024};
// Packing a panel of B costs as much as this many rows of it, reading A as much as this many columns.
constexpr std::int64_t kPackRows = 40;
constexpr std::int64_t kReadCols = 12;
// Beyond so many tasks any cut is balanced.
constexpr std::size_t kManyTasks = 512;

std::int64_t multiple_near(std::int64_t target, std::int64_t unit, std::int64_t extent) {
  const std::int64_t rounded = unit >= target ? unit : target / unit * unit;
  return std::max<std::int64_t>(1, std::min(rounded, extent));
}

Size size_for(const Region& region, Size target) {
  return {multiple_near(target.rows, region.row_unit, region.rows),
          multiple_near(target.cols, region.col_unit, region.cols)};
}

void add_tasks(int number, const Region& region, Size size, std::vector<Task>& tasks) {
  const std::int64_t rows = std::max<std::int64_t>(region.rows, 1);
  const std::int64_t cols = std::max<std::int64_t>(region.cols, 1);
  for (std::int64_t col = 0; col < cols; col += size.cols)
    for (std::int64_t row = 0; row < rows; row += size.rows)
      tasks.push_back(
          {number, row, std::min(size.rows, region.rows - row), col, std::min(size.cols, region.cols - col)});
}

std::int64_t cost_of(const Task& task, const Region& region) {
  return (task.rows + kPackRows) * task.cols * region.accumulators + task.rows * kReadCols;
}

// When the last of `threads` threads that take tasks in order is done.
std::int64_t finish_time(const std::vector<Region>& regions, const std::vector<Task>& tasks, int threads) {
  std::array<std::int64_t, 64> busy{};
  const int count = std::min<int>(threads, static_cast<int>(busy.size()));
  for (const Task& task : tasks)
    *std::min_element(busy.begin(), busy.begin() + count) +=
        cost_of(task, regions[static_cast<std::size_t>(task.region)]);
  return *std::max_element(busy.begin(), busy.begin() + count);
}

void add_all(const std::vector<Region>& regions, Size target, std::vector<Task>& tasks) {
  tasks.clear();
  for (std::size_t i = 0; i < regions.size(); ++i)
    add_tasks(static_cast<int>(i), regions[i], size_for(regions[i], target), tasks);
}

std::int64_t count_tasks(const std::vector<Region>& regions, Size target) {
  std::int64_t count = 0;
  for (const Region& region : regions) {
    const Size size = size_for(region, target);
    count += (region.rows / size.rows + 1) * (region.cols / size.cols + 1);
  }
  return count;
}

}  // namespace

void cut(const std::vector<Region>& regions, int threads, std::vector<Task>& tasks) {
  std::int64_t accumulators = 0;
  for (const Region& region : regions) accumulators = std::max<std::int64_t>(accumulators, region.accumulators);
  Size best = accumulators > 0 ? Size{kProductRows[0], kProductFloats / kProductRows[0] / accumulators} : kElementwise;
  std::int64_t best_time = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t rows : kProductRows) {
    for (const std::int64_t cols : kProductCols) {
      if (accumulators == 0 || rows * cols * accumulators > kProductFloats) continue;
      if (count_tasks(regions, {rows, cols}) > static_cast<std::int64_t>(kManyTasks)) continue;
      add_all(regions, {rows, cols}, tasks);
      const std::int64_t time = finish_time(regions, tasks, threads);
      if (time < best_time) best = {rows, cols}, best_time = time;
    }
  }
  add_all(regions, best, tasks);
}

}  // namespace coda::cpu
