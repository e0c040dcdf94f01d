// bind: factors, then each segment's program and operands, then memory.
#include <numeric>
#include <string>

#include "coda/problem.h"
#include "core/check.h"
#include "problem/factors.h"
#include "problem/memory.h"
#include "problem/operands.h"

namespace coda {
namespace {

using View = Factor::View;

void check_segment_count(std::string_view call, const Factor& a, const Factor& b, std::size_t got) {
  const bool by_row = a.view == View::Concat;
  const bool by_col = b.view == View::Concat;
  const std::size_t expected = by_row ? a.parts.size() : by_col ? b.parts.size() : 1;
  REQUIRE(
      ValueError, got == expected, call, ": got ", got, got == 1 ? " segment" : " segments", ", expected ", expected,
      by_row || by_col ? concat(", one for each part of ", by_row ? "A" : "B") : ": only a concat factor has several");
}

void check_accumulators(const Place& place, const Program& program, int available) {
  const int read = program.accumulators();
  const std::string got =
      concat(place.call, ": program '", program.name(), "' reads ", read, read == 1 ? " accumulator" : " accumulators");
  REQUIRE(ValueError, read > 0 || available == 0, got, ", expected ", available, ": without one, use elementwise");
  REQUIRE(ValueError, read <= available || available > 0, got, ", expected none in an elementwise pass: use gemm");
  REQUIRE(ValueError, read <= available, got, ", but B gives 1: pass pair(first, second) as B");
  REQUIRE(ValueError, read == available, got, ", but B is a pair, which gives 2: pass one matrix as B");
}

// What messages call a segment: −1 where there is one.
int number_of(std::span<const Segment> segments, std::size_t i) {
  return segments.size() > 1 ? static_cast<int>(i) : -1;
}

// Where the tensors of an elementwise pass must be: where the first of them is.
Home home_of(std::string_view call, std::span<const Segment> segments) {
  for (std::size_t i = 0; i < segments.size(); ++i)
    if (const Operands& operands = segments[i].operands; !operands.empty())
      return {operands[0].tensor.device(), operand_text({call, number_of(segments, i)}, operands[0].name)};
  return {};
}

void bind_segment(Place place, const Segment& segment, int accumulators, BoundSegment& bound) {
  check_accumulators(place, segment.program, accumulators);
  check_columns(place, segment.program);
  bound.program = segment.program;
  bound.operands = bind_operands(place, segment.program, segment.operands);
}

}  // namespace

Problem bind(std::string_view call, const Factor& a, const Factor& b, std::span<const Segment> segments) {
  const Extents extents = check_factors(call, a, b);
  check_segment_count(call, a, b, segments.size());
  Problem problem{.call = std::string(call), .a = a, .b = b, .device = a.parts[0].device(), .k = extents.depth};
  problem.m = std::accumulate(extents.rows.begin(), extents.rows.end(), std::int64_t{0});
  problem.n = std::accumulate(extents.cols.begin(), extents.cols.end(), std::int64_t{0});
  std::int64_t row = 0, col = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    BoundSegment bound{.row = row, .col = col};
    bound.rows = extents.rows[a.view == View::Concat ? i : 0];
    bound.cols = extents.cols[b.view == View::Concat ? i : 0];
    const Place place{call, number_of(segments, i), bound.rows, bound.cols, {problem.device, "A"}};
    bind_segment(place, segments[i], b.view == View::Pair ? 2 : 1, bound);
    if (a.view == View::Concat) row += bound.rows;
    if (b.view == View::Concat) col += bound.cols;
    problem.segments.push_back(std::move(bound));
  }
  check_memory(problem);
  return problem;
}

Problem bind_elementwise(std::string_view call, std::int64_t rows, std::int64_t cols, const Segment& segment) {
  return bind_elementwise(call, rows, {&cols, 1}, {&segment, 1});
}

Problem bind_elementwise(std::string_view call, std::int64_t rows, std::span<const std::int64_t> cols,
                         std::span<const Segment> segments) {
  REQUIRE(ValueError, !segments.empty() && cols.size() == segments.size(), call, ": got ", segments.size(),
          " segments and ", cols.size(), " numbers of columns, expected as many of each, at least 1");
  Problem problem{.call = std::string(call), .m = rows};
  const Home home = home_of(call, segments);
  problem.device = home.device;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    REQUIRE(ValueError, rows >= 0 && cols[i] >= 0, call, ": got an output of ", rows, " rows and ", cols[i],
            " columns, expected 0 or more of each");
    BoundSegment bound{.col = problem.n, .rows = rows, .cols = cols[i]};
    bind_segment({call, number_of(segments, i), rows, cols[i], home}, segments[i], 0, bound);
    problem.n += cols[i];
    problem.segments.push_back(std::move(bound));
  }
  check_memory(problem);
  return problem;
}

}  // namespace coda
