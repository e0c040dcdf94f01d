// Runs a lowered program over one panel of columns, block of rows after block of rows, on one thread.
#pragma once

#include <cstdint>

#include "coda/problem.h"
#include "cpu/buffer.h"
#include "cpu/fast/kernels.h"
#include "cpu/fast/lower.h"

namespace coda::cpu {

/// Accumulators of a block: fp32, rows `step` apart.
struct Accumulators {
  const float* data[2] = {};
  std::int64_t step = 0;
};

/// The narrowest column reduction: no chunk of rows straddles two partials.
inline constexpr std::int64_t kBlockRows = 64;

class Executor {
 public:
  /// Prepares columns col … col + cols of the segment for blocks of at most `max_rows` rows; scratch comes from
  /// `memory`. Scalars and Rows are computed here; `writes_rows`: and stored, by one panel of each column alone.
  Executor(const Lowered& program, const BoundSegment& segment, std::int64_t col, std::int64_t cols,
           std::int64_t max_rows, bool writes_rows, Buffer& memory);

  /// Blocks come in order of rows; all but the last of a segment have a multiple of kBlockRows rows.
  void run(std::int64_t row, std::int64_t rows, const Accumulators& accumulators);

 private:
  struct Place {
    Space phase = Space::Scalar;  ///< the space whose steps run
    std::int64_t row = 0;
    std::int64_t rows = 0;
    std::int64_t in_block = 0;  ///< rows of the block before `row`
  };

  void lay_out(Buffer& memory, std::int64_t max_rows);
  void run_step(const Step& step, const Place& place);
  void run_chunk(const Place& place);
  void load(const Step& step, const Place& place);
  void finish_rows(const Step& step, const Place& place);
  void finish_cols(const Step& step);
  void index(const Step& step, const Place& place);
  void reduce(const Step& step, const Place& place);
  void store(const Step& step, const Place& place);
  void select(const Step& step, const Place& place);

  const Operand& operand(int number) const { return segment_.program.operand(number); }
  /// The operand from the first entry of the step on, turned so that the extent of the phase fits it.
  MemoryRef memory_of(int operand, const ValueRef& value, const Place& place) const;
  bool is_written(const void* data) const;
  Extent extent_of(const ValueRef& value, const Place& place) const;
  Arg arg_of(const ValueRef& value, const Place& place) const;
  Out out_of(const ValueRef& value);

  const Lowered& program_;
  const BoundSegment& segment_;
  const Kernels& kernels_;
  std::int64_t col_;
  std::int64_t cols_;
  bool writes_rows_;
  std::int64_t width_ = 0;       ///< floats of a Row slot and of a row of a Tile slot
  std::int64_t length_ = 0;      ///< floats of a Col slot
  std::int64_t chunk_rows_ = 1;  ///< rows of a Tile slot
  float* scalar_slots_ = nullptr;
  float* row_slots_ = nullptr;
  float* col_slots_ = nullptr;
  float* tile_slots_ = nullptr;
  Arg* tile_args_ = nullptr;  ///< where each Tile slot's value is: its slot, or the tensor itself
  Accumulators accumulators_;
};

}  // namespace coda::cpu
