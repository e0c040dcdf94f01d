#include "cpu/fast/execute.h"

#include <algorithm>
#include <limits>

#include "core/check.h"

namespace coda::cpu {
namespace {

// Tile slots of a chunk of rows, together: half of a first-level data cache.
constexpr std::int64_t kChunkFloats = 24 * 1024 / sizeof(float);
constexpr std::int64_t kMaxChunkRows = 32;

std::int64_t chunk_rows_for(std::int64_t floats_a_row) {
  std::int64_t rows = 1;
  while (rows < kMaxChunkRows && 2 * rows * floats_a_row <= kChunkFloats) rows *= 2;
  return rows;
}

}  // namespace

Executor::Executor(const Lowered& program, const BoundSegment& segment, std::int64_t col, std::int64_t cols,
                   std::int64_t max_rows, bool writes_rows, Buffer& memory)
    : program_(program), segment_(segment), kernels_(kernels()), col_(col), cols_(cols), writes_rows_(writes_rows) {
  lay_out(memory, max_rows);
  for (const Step& step : program_.scalar_steps) run_step(step, {Space::Scalar, 0, 1, 0});
  if (cols_ == 0) return;
  for (const Step& step : program_.row_steps) run_step(step, {Space::Row, 0, 1, 0});
}

void Executor::lay_out(Buffer& memory, std::int64_t max_rows) {
  width_ = std::max(kPad, padded(cols_));
  length_ = std::max(kPad, padded(max_rows));
  chunk_rows_ = chunk_rows_for(width_ * std::max(1, program_.tile_slots));
  const std::int64_t scalars = kPad * program_.scalar_slots;
  const std::int64_t rows = width_ * program_.row_slots;
  const std::int64_t cols = length_ * program_.col_slots;
  const std::int64_t tiles = chunk_rows_ * width_ * program_.tile_slots;
  const std::size_t floats = static_cast<std::size_t>(scalars + rows + cols + tiles);
  const std::size_t args = static_cast<std::size_t>(program_.tile_slots) * sizeof(Arg);
  scalar_slots_ = static_cast<float*>(memory.reserve(floats * sizeof(float) + args));
  row_slots_ = scalar_slots_ + scalars;
  col_slots_ = row_slots_ + rows;
  tile_slots_ = col_slots_ + cols;
  tile_args_ = reinterpret_cast<Arg*>(tile_slots_ + tiles);
}

void Executor::run(std::int64_t row, std::int64_t rows, const Accumulators& accumulators) {
  accumulators_ = accumulators;
  for (const Step& step : program_.col_steps) run_step(step, {Space::Col, row, rows, 0});
  for (std::int64_t done = 0; done < rows; done += chunk_rows_)
    run_chunk({Space::Tile, row + done, std::min(chunk_rows_, rows - done), done});
}

void Executor::run_chunk(const Place& place) {
  for (const Step& step : program_.tile_steps) {
    // Without columns there is nothing but rows whose index is ignored.
    if (cols_ == 0 && step.kind != StepKind::Select) continue;
    run_step(step, place);
  }
}

// Of an entrywise step the arguments are looked up first: the result may take over the slot of one.
void Executor::run_step(const Step& step, const Place& place) {
  const Node& node = step.node;
  const Extent extent = extent_of(step.out, place);
  const auto arg = [&](int i) { return arg_of(step.args[static_cast<std::size_t>(i)], place); };
  switch (step.kind) {
    case StepKind::Constant: std::fill_n(out_of(step.out).data, kPad, static_cast<float>(node.value)); return;
    case StepKind::Load: return load(step, place);
    case StepKind::Finish:
      return operand(step.operand).partials->axis == Axis::Row ? finish_rows(step, place) : finish_cols(step);
    case StepKind::Index: return index(step, place);
    case StepKind::Map: {
      const Arg args[] = {arg(0), arg(step.arity > 1 ? 1 : 0), arg(step.arity > 2 ? 2 : 0)};
      return kernels_.map(node.op, extent, args, out_of(step.out));
    }
    case StepKind::Split: return kernels_.split(extent, node.pairing, node.index, arg(0), out_of(step.out));
    case StepKind::Join: {
      const Arg rest = step.arity > 2 ? arg(2) : Arg{};
      return kernels_.join(extent, node.pairing, arg(0), arg(1), rest, out_of(step.out));
    }
    case StepKind::SpanSum: return kernels_.span_sum(extent, node.period, arg(0), out_of(step.out));
    case StepKind::Round: {
      const Arg in = arg(0);
      return kernels_.round(node.dtype, extent, in, out_of(step.out));
    }
    case StepKind::Repeat: return kernels_.repeat(extent, step.args[0].period, arg(0), out_of(step.out));
    case StepKind::Reduce: return reduce(step, place);
    case StepKind::Store: return store(step, place);
    case StepKind::Select: return select(step, place);
  }
}

Extent Executor::extent_of(const ValueRef& value, const Place& place) const {
  if (place.phase == Space::Scalar) return {1, 1};
  if (place.phase == Space::Col) return {1, place.rows};
  return {place.rows, value.period > 0 ? value.period : columns_in(value.domain, cols_)};
}

Arg Executor::arg_of(const ValueRef& value, const Place& place) const {
  switch (value.space) {
    case Space::Scalar: return {scalar_slots_ + kPad * value.slot, 0, true};
    case Space::Row: return {row_slots_ + width_ * value.slot, 0, false};
    case Space::Col: {
      const float* slot = col_slots_ + length_ * value.slot;
      return place.phase == Space::Col ? Arg{slot, 0, false} : Arg{slot + place.in_block, 1, true};
    }
    case Space::Tile: return tile_args_[value.slot];
    case Space::Acc:
      return {accumulators_.data[value.slot] + place.in_block * accumulators_.step, accumulators_.step, false};
  }
  INVARIANT(false, "space ", static_cast<int>(value.space));
}

Out Executor::out_of(const ValueRef& value) {
  switch (value.space) {
    case Space::Scalar: return {scalar_slots_ + kPad * value.slot, 0};
    case Space::Row: return {row_slots_ + width_ * value.slot, width_};
    case Space::Col: return {col_slots_ + length_ * value.slot, 0};
    case Space::Tile: {
      float* slot = tile_slots_ + chunk_rows_ * width_ * value.slot;
      tile_args_[value.slot] = {slot, width_, false};
      return {slot, width_};
    }
    case Space::Acc: break;
  }
  INVARIANT(false, "a step cannot write to an accumulator");
}

MemoryRef Executor::memory_of(int number, const ValueRef& value, const Place& place) const {
  const TensorView& tensor = segment_.operands[static_cast<std::size_t>(number)];
  const MemoryRef whole{tensor.data(), tensor.dtype(), tensor.stride(0), tensor.stride(1)};
  const std::int64_t col = value.period > 0 ? 0 : columns_in(value.domain, col_);
  switch (place.phase) {
    case Space::Scalar: return whole;
    case Space::Row: return whole.at(0, col);
    case Space::Col: {
      const MemoryRef column = whole.at(place.row, 0);
      return {column.data, column.dtype, 0, column.row_stride};
    }
    case Space::Tile: return whole.at(place.row, col);
    case Space::Acc: break;
  }
  INVARIANT(false, "phase ", static_cast<int>(place.phase));
}

bool Executor::is_written(const void* data) const {
  for (std::size_t i = 0; i < segment_.operands.size(); ++i)
    if (operand(static_cast<int>(i)).role != Role::Input && segment_.operands[i].data() == data) return true;
  return false;
}

void Executor::load(const Step& step, const Place& place) {
  const Extent extent = extent_of(step.out, place);
  const MemoryRef from = memory_of(step.operand, step.out, place);
  const bool as_it_is = from.dtype == DType::F32 && from.col_stride == 1 && extent.cols % kPad == 0;
  if (step.out.space == Space::Tile && as_it_is &&
      !is_written(segment_.operands[static_cast<std::size_t>(step.operand)].data())) {
    tile_args_[step.out.slot] = {static_cast<const float*>(from.data), from.row_stride, false};
    return;
  }
  kernels_.load(extent, from, out_of(step.out));
}

void Executor::index(const Step& step, const Place& place) {
  const Extent extent = extent_of(step.out, place);
  float* out = out_of(step.out).data;
  const std::int64_t first = place.phase == Space::Col ? place.row
                             : step.out.period > 0     ? 0
                                                       : columns_in(step.out.domain, col_);
  for (std::int64_t i = 0; i < extent.cols; ++i)
    out[i] = static_cast<float>(step.node.period > 0 ? (first + i) % step.node.period : first + i);
}

// One row of partials for each row of the block.
void Executor::finish_rows(const Step& step, const Place& place) {
  thread_local Buffer memory;
  const TensorView& tensor = segment_.operands[static_cast<std::size_t>(step.operand)];
  const Reduction op = operand(step.operand).partials->op;
  const std::int64_t count = tensor.shape(1);
  float* out = out_of(step.out).data;
  if (count == 0) {
    std::fill_n(out, place.rows, op == Reduction::Sum ? 0.0f : -std::numeric_limits<float>::infinity());
    return;
  }
  const MemoryRef from = MemoryRef{tensor.data(), tensor.dtype(), tensor.stride(0), tensor.stride(1)}.at(place.row, 0);
  if (from.dtype == DType::F32 && from.col_stride == 1) {
    const Arg in{static_cast<const float*>(from.data), from.row_stride, false};
    return kernels_.reduce_row(op, {place.rows, count}, count, in, {out, 1});
  }
  auto* line = static_cast<float*>(memory.reserve(static_cast<std::size_t>(padded(count)) * sizeof(float)));
  for (std::int64_t r = 0; r < place.rows; ++r) {
    kernels_.load({1, count}, from.at(r, 0), {line, 0});
    kernels_.reduce_row(op, {1, count}, count, {line, 0, false}, {out + r, 1});
  }
}

void Executor::finish_cols(const Step& step) {
  thread_local Buffer memory;
  const TensorView& tensor = segment_.operands[static_cast<std::size_t>(step.operand)];
  const Reduction op = operand(step.operand).partials->op;
  const MemoryRef from{tensor.data(), tensor.dtype(), tensor.stride(0), tensor.stride(1)};
  auto* line = static_cast<float*>(memory.reserve(static_cast<std::size_t>(width_) * sizeof(float)));
  const Out state = out_of(step.out);
  kernels_.reduce_col(op, {0, cols_}, {}, state, true);
  for (std::int64_t r = 0; r < tensor.shape(0); ++r) {
    kernels_.load({1, cols_}, from.at(r, col_), {line, 0});
    kernels_.reduce_col(op, {1, cols_}, {line, 0, false}, state, false);
  }
  kernels_.finish_col(op, cols_, state);
}

void Executor::reduce(const Step& step, const Place& place) {
  const Node& node = step.node;
  const Arg in = arg_of(step.args[0], place);
  const Out out = out_of(step.out);
  const Extent extent{place.rows, cols_};
  if (node.axis == Axis::Row) return kernels_.reduce_row(node.reduction, extent, node.period, in, out);
  kernels_.reduce_col(node.reduction, extent, in, out, place.row % node.period == 0);
  const std::int64_t end = place.row + place.rows;
  if (end % node.period != 0 && end != segment_.rows) return;
  kernels_.finish_col(node.reduction, cols_, out);
  const TensorView& tensor = segment_.operands[static_cast<std::size_t>(step.operand)];
  const MemoryRef to{tensor.data(), tensor.dtype(), tensor.stride(0), tensor.stride(1)};
  kernels_.store({1, cols_}, {out.data, 0, false}, to.at(place.row / node.period, col_), false);
}

// A Col or Row is stored once: by the first panel, or the first block of rows.
void Executor::store(const Step& step, const Place& place) {
  const ValueRef& value = step.args[0];
  if (place.phase == Space::Col && col_ > 0) return;
  if (place.phase == Space::Row && !writes_rows_) return;
  if (place.phase == Space::Scalar && !(writes_rows_ && col_ == 0)) return;
  const bool accumulate = operand(step.operand).role == Role::Accumulate;
  Arg in = arg_of(value, place);
  if (step.node.kind == NodeKind::Reduce) {
    const std::int64_t width = step.node.period;
    const TensorView& tensor = segment_.operands[static_cast<std::size_t>(step.operand)];
    const MemoryRef to{tensor.data(), tensor.dtype(), tensor.stride(0), tensor.stride(1)};
    return kernels_.store({place.rows, (cols_ + width - 1) / width}, in, to.at(place.row, col_ / width), false);
  }
  if (place.phase == Space::Scalar) in.spread = false;
  kernels_.store(extent_of(value, place), in, memory_of(step.operand, value, place), accumulate);
}

void Executor::select(const Step& step, const Place& place) {
  const Arg tile = arg_of(step.args[0], place);
  const Arg index = arg_of(step.args[1], place);
  const TensorView& tensor = segment_.operands[static_cast<std::size_t>(step.operand)];
  const auto put = [&](std::int64_t r, float value) {
    store_element(tensor.dtype(), tensor.data(), (place.row + r) * tensor.stride(0), value);
  };
  for (std::int64_t r = 0; r < place.rows; ++r) {
    const float wanted = index.data[r * index.row_step];
    if (step.node.ignored && wanted == static_cast<float>(*step.node.ignored)) {
      if (col_ == 0) put(r, 0);
    } else if (wanted >= static_cast<float>(col_)) {
      const std::int64_t c = static_cast<std::int64_t>(wanted) - col_;
      if (c < cols_) put(r, tile.data[r * tile.row_step + c]);
    }
  }
}

}  // namespace coda::cpu
