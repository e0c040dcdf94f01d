#include "blocks/partials.h"

#include <algorithm>
#include <numeric>

#include "blocks/remembered.h"
#include "coda/build.h"
#include "coda/gemm.h"
#include "core/integers.h"

namespace coda {
namespace {

constexpr std::int64_t kPartialUnit = 64;
// A kernel of a GPU reduces the columns of one tile: a wider group fits none.
constexpr std::int64_t kWidestOnGpu = 128;

Program fewer_program(Reduction op, Axis axis, std::int64_t width) {
  Builder b("fewer_partials");
  const Value many = b.load_tile("partials").named("partials");
  b.store("fewer", axis == Axis::Row ? reduce_row(many, op, width) : reduce_col(many, op, width));
  return b.build();
}

Tensor fewer_along(const TensorView& partials, Reduction op, Axis axis, std::int64_t width, const Execution& where) {
  const std::int64_t rows = partials.shape(0), cols = partials.shape(1);
  const Program program = remembered(std::tuple(op, axis, width), [&] { return fewer_program(op, axis, width); });
  const Tensor fewer = axis == Axis::Row
                           ? Tensor::empty({rows, ceil_div(cols, width)}, DType::F32, partials.device(), where.stream)
                           : Tensor::empty({ceil_div(rows, width), cols}, DType::F32, partials.device(), where.stream);
  elementwise(rows, cols, program, {{"partials", partials}, {"fewer", fewer}}, {}, where);
  return fewer;
}

Program col_sums_program(bool accumulate) {
  Builder b(accumulate ? "add_col_sums" : "col_sums");
  b.store("into", b.load_partials("partials", Reduction::Sum, Axis::Col).named("sum"), {.accumulate = accumulate});
  return b.build();
}

/// What a sum of no rows leaves in the place of what was there.
Program zeros_program() {
  Builder b("zeros");
  b.store("into", b.col_index() * 0.0);  // a row, as a constant is none
  return b.build();
}

/// Adds to the segments of a launch what sums up one tensor of partials.
void push_sum(const ColSum& sum, const TensorView& partials, std::vector<Segment>& segments) {
  static const Program add = col_sums_program(true), write = col_sums_program(false), zeros = zeros_program();
  if (partials.shape(0) > 0)
    segments.push_back({sum.into.is_fresh() ? write : add, {{"partials", partials}, {"into", *sum.into}}});
  else if (sum.into.is_fresh())
    segments.push_back({zeros, {{"into", *sum.into}}});
}

}  // namespace

std::int64_t partial_width_for(std::int64_t columns) {
  const std::int64_t unit = kMaxPartials * kPartialUnit;
  const std::int64_t units = std::max<std::int64_t>(ceil_div(columns, unit), 1);
  // 128 would shut out tiles of 192 columns, the fastest on a GPU where rows are so long; 192 only those of others.
  return kPartialUnit * (units == 2 ? 3 : units);
}

std::int64_t partial_count_for(std::int64_t columns) { return ceil_div(columns, partial_width_for(columns)); }

std::int64_t row_partial_width(std::int64_t columns, Device device) {
  const std::int64_t width = partial_width_for(columns);
  return device.kind == DeviceKind::Cpu ? width : std::min(width, kWidestOnGpu);
}

Tensor fewer_partials(const TensorView& partials, Reduction op, std::int64_t width, const Execution& where) {
  return fewer_along(partials, op, Axis::Row, width, where);
}

Tensor few_enough(const Tensor& partials, Reduction op, const Execution& where) {
  const std::int64_t count = partials.view().shape(1);
  return count <= kMaxPartials ? partials : fewer_partials(partials, op, partial_width_for(count), where);
}

RowSums::RowSums(std::int64_t rows, const std::vector<std::int64_t>& cols, Device device, const Execution& where,
                 std::int64_t head) {
  std::int64_t total = 0;
  for (const std::int64_t tile : cols) total += tile;
  const std::int64_t unit = std::lcm(head, kPartialUnit);
  width_ = round_up(row_partial_width(total, device), unit);
  for (const std::int64_t tile : cols) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + ceil_div(tile, width_));
  all_ = Tensor::empty({rows, ends_.back()}, DType::F32, device, where.stream);
}

TensorView RowSums::part(std::size_t index) const {
  return all_.view().slice(1, index == 0 ? 0 : ends_[index - 1], ends_[index]);
}

std::int64_t col_partial_count(std::int64_t rows) { return ceil_div(rows, kColPartialWidth); }

void add_col_sums(const std::vector<ColSum>& sums, const Execution& where) {
  std::vector<Tensor> made;
  std::vector<std::int64_t> cols;
  std::vector<Segment> segments;
  for (const ColSum& sum : sums) {
    TensorView partials = sum.partials;
    while (partials.shape(0) > kMaxPartials) {
      made.push_back(fewer_along(partials, Reduction::Sum, Axis::Col, kPartialUnit, where));
      partials = made.back();
    }
    push_sum(sum, partials, segments);
    if (segments.size() > cols.size()) cols.push_back(partials.shape(1));
  }
  if (!segments.empty()) elementwise(1, cols, segments, {}, where);
}

}  // namespace coda
