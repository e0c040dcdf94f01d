#include "cpu/fast/fast.h"

#include <algorithm>
#include <memory>

#include "core/integers.h"
#include "cpu/fast/execute.h"
#include "cpu/fast/lower.h"
#include "cpu/fast/product.h"
#include "cpu/fast/schedule.h"
#include "cpu/threads.h"
#include "problem/products.h"

namespace coda::cpu {
namespace {

// Rows of A packed at a time, and accumulators of a block of rows in floats: both bound scratch memory.
constexpr std::int64_t kBandRows = 4096;
constexpr std::int64_t kBlockFloats = 192 * 1024;
// A panel of B is kept packed between blocks of rows up to this size.
constexpr std::int64_t kKeepElements = std::int64_t{64} << 20;

// A segment with what its tasks share.
struct Part {
  const BoundSegment* segment = nullptr;
  const Lowered* program = nullptr;
  std::vector<TensorView> a;
  std::vector<TensorView> b[2];
};

// Tasks of the segments that share A, for rows of one band.
class Launch {
 public:
  Launch(const Problem& problem, const std::vector<Lowered>& programs, std::size_t first, std::size_t count) {
    for (std::size_t s = first; s < first + count; ++s) {
      Part part{&problem.segments[s], &programs[s], {}, {}};
      for (int which = 0; which < part.program->accumulators; ++which) {
        part.a.clear();
        for (const Product& product : products_of(problem, s, which)) {
          part.a.push_back(product.a);
          part.b[which].push_back(product.b);
        }
      }
      parts_.push_back(std::move(part));
    }
  }

  void run() {
    std::int64_t unit = kBlockRows;
    for (const Part& part : parts_) unit = common_unit(unit, part.program->row_unit);
    const std::int64_t rows = parts_[0].segment->rows;
    const std::int64_t step = round_up(std::min(kBandRows, std::max<std::int64_t>(rows, 1)), unit);
    std::int64_t row = 0;
    do {
      run_band(row, std::min(step, rows - row));
      row += step;
    } while (row < rows);
  }

 private:
  void run_band(std::int64_t row, std::int64_t rows) {
    std::unique_ptr<RowBand> band;
    thread_local Buffer packed_rows;
    if (!parts_[0].a.empty()) {
      band = std::make_unique<RowBand>(parts_[0].a, row, rows, packed_rows);
      parallel_for(band->pieces(), [&](int, std::int64_t piece) { band->pack(piece); });
    }
    std::vector<Region> regions;
    for (const Part& part : parts_)
      regions.push_back({rows, part.segment->cols, common_unit(part.program->row_unit, kBlockRows),
                         part.program->col_unit, part.program->accumulators});
    std::vector<Task> tasks;
    cut(regions, parallel_width(), tasks);
    parallel_for(static_cast<std::int64_t>(tasks.size()),
                 [&](int, std::int64_t i) { run_task(tasks[static_cast<std::size_t>(i)], row, band.get()); });
  }

  void run_task(const Task& task, std::int64_t band_row, const RowBand* band) const {
    thread_local Buffer slots, accumulators, panels[2];
    const Part& part = parts_[static_cast<std::size_t>(task.region)];
    const int count = part.program->accumulators;
    const std::int64_t step = padded(std::max<std::int64_t>(task.cols, 1)) + kPad;
    const std::int64_t fitting = kBlockFloats / (step * std::max(1, count)) / kBlockRows * kBlockRows;
    const std::int64_t block = std::min(std::max(fitting, kBlockRows), std::max(task.rows, kBlockRows));
    auto* c = static_cast<float*>(accumulators.reserve(static_cast<std::size_t>(count * block * step) * sizeof(float)));
    const bool keep = block < task.rows && part.segment->cols > 0 && depth_of(part) * task.cols <= kKeepElements;
    RowBand::Panel panel[2];
    for (int i = 0; i < count; ++i) panel[i] = {&part.b[i], task.col, task.cols, &panels[i], keep, false};

    const bool writes_rows = band_row == 0 && task.row == 0;
    Executor executor(*part.program, *part.segment, task.col, task.cols, block, writes_rows, slots);
    for (std::int64_t row = task.row; row < task.row + task.rows; row += block) {
      const std::int64_t rows = std::min(block, task.row + task.rows - row);
      Accumulators made{{c, c + block * step}, step};
      for (int i = 0; i < count; ++i) band->multiply(panel[i], row, rows, c + i * block * step, step);
      executor.run(band_row + row, rows, made);
    }
  }

  static std::int64_t depth_of(const Part& part) {
    std::int64_t depth = 0;
    for (const TensorView& a : part.a) depth += a.shape(1);
    return depth;
  }

  std::vector<Part> parts_;
};

class FastPlan final : public Plan {
 public:
  explicit FastPlan(const Problem& problem) {
    for (const BoundSegment& segment : problem.segments) programs_.push_back(lower(segment.program));
  }

  void run(const Problem& problem, const Execution&) const override {
    const std::size_t count = problem.segments.size();
    // Segments along N share A; along M each has its own.
    const std::size_t together = problem.a.view == Factor::View::Concat ? 1 : count;
    for (std::size_t first = 0; first < count; first += together) Launch(problem, programs_, first, together).run();
  }

 private:
  std::vector<Lowered> programs_;
};

class FastBackend final : public Backend {
 public:
  std::string_view name() const override { return "fast"; }

  std::optional<std::string> refuses(const Problem& problem) const override {
    const auto is_double = [](const TensorView& view) { return view.dtype() == DType::F64; };
    bool found = std::ranges::any_of(problem.a.parts, is_double) || std::ranges::any_of(problem.b.parts, is_double);
    for (const BoundSegment& segment : problem.segments)
      found = found || std::ranges::any_of(segment.operands, is_double);
    if (!found) return {};
    return "it computes in f32 and takes no f64 tensor; use the backend 'reference'";
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const PlanOptions&) const override {
    return std::make_unique<FastPlan>(problem);
  }
};

}  // namespace

const Backend& fast_backend() {
  static const FastBackend backend;
  return backend;
}

}  // namespace coda::cpu
