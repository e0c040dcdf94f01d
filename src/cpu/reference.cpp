#include "cpu/reference.h"

#include <algorithm>
#include <numeric>

#include "cpu/reference_nodes.h"

namespace coda::cpu {
namespace {

// Rows interpreted together: enough to use a widened line of B many times, few enough that a wide output fits memory.
constexpr std::int64_t kBlockRows = 64;

// A multiple of every column reduction's width, so that no partial spans two blocks; at most all rows.
std::int64_t block_rows(const BoundSegment& segment) {
  std::int64_t rows = kBlockRows;
  for (const Node& node : segment.program.nodes()) {
    if (rows >= segment.rows) return std::max<std::int64_t>(segment.rows, 1);
    if (node.kind == NodeKind::Reduce && node.axis == Axis::Col) rows = std::lcm(rows, node.period);
  }
  return rows;
}

void run_segment(const Problem& problem, std::size_t number) {
  const BoundSegment& segment = problem.segments[number];
  const std::int64_t rows = block_rows(segment);
  NodeInterpreter interpreter(problem, number);
  // An output without rows still has Row and Scalar stores: one empty block.
  std::int64_t first = 0;
  do {
    const std::int64_t count = std::min(rows, segment.rows - first);
    interpreter.run({first, count, first + count == segment.rows});
    first += rows;
  } while (first < segment.rows);
}

class ReferencePlan final : public Plan {
 public:
  void run(const Problem& problem, const Execution&) const override {
    for (std::size_t i = 0; i < problem.segments.size(); ++i) run_segment(problem, i);
  }
};

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  std::optional<std::string> refuses(const Problem&) const override { return {}; }
  std::unique_ptr<Plan> plan(const Problem&, const PlanOptions&) const override {
    return std::make_unique<ReferencePlan>();
  }
};

}  // namespace

const Backend& reference_backend() {
  static const ReferenceBackend backend;
  return backend;
}

}  // namespace coda::cpu
