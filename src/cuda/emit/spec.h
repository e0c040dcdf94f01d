// KernelSpec: everything a kernel's text depends on. M, N, K, pointers and strides are arguments of the kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coda/program.h"
#include "coda/schedule.h"

namespace coda::cuda {

/// How a tile operand travels between memory and the program; what one asks of the operand's strides and alignment the
/// ones behind it do not.
enum class Access : std::uint8_t {
  Staged,  ///< by TMA through shared memory: inner stride 1, base and pitch multiples of 16 bytes
  Fours,   ///< by the threads, four neighbouring columns at once, where there is no product
  Paired,  ///< by the threads, two neighbouring columns at once
  Single,  ///< by the threads, one element at a time: any strides
};

/// A program with the dtypes of its operands fixed, how each of its operands travels (read for tiles alone), and the
/// inputs that are read for an element's partner too.
struct SegmentSpec {
  Program program{};
  std::vector<Access> access{};
  std::vector<bool> split{};
};

struct KernelSpec {
  DType element = DType::BF16;  ///< of A and B: BF16 or F16
  bool a_k_major = true;
  bool b_k_major = true;
  bool pair = false;
  int k_parts = 1;
  bool segments_along_n = true;
  std::vector<SegmentSpec> segments{};
  Schedule schedule{};
};

/// A tile operand of a program that travels staged.
struct StagedOperand {
  int operand = 0;
  DType dtype = DType::BF16;
  bool adds = false;  ///< an output that the copy engine adds to memory (fp32 accumulation)
};

/// Staged inputs and outputs of a program, in the order of their maps. An accumulating 16-bit output is both.
std::vector<StagedOperand> staged_inputs(const SegmentSpec& segment);
std::vector<StagedOperand> staged_outputs(const SegmentSpec& segment);

/// Without a product a thread takes four neighbouring columns, unless they may be on either side of a head's end or of
/// the middle of paired columns.
bool takes_fours(const Program& program);

/// The same as its tiles can go where there is no product: all are read and written by the threads.
SegmentSpec without_product(SegmentSpec segment);

/// The same as they can go where there is one: it leaves a thread pairs of columns, and what is read for a partner too,
/// or before the rest, is not staged.
SegmentSpec behind_product(SegmentSpec segment);

/// Sub-tiles of 16-bit elements that the staged operands of the segment with most take: an fp32 one takes two.
int staged_input_units(const KernelSpec& spec);
int staged_output_units(const KernelSpec& spec);

/// Maps a segment has of each kind: those of the segment with most.
int input_maps(const KernelSpec& spec);
int output_maps(const KernelSpec& spec);

/// Columns a tile must hold whole multiples of: heads are whole, and a group of columns that is reduced lies in one
/// tile.
std::int64_t column_unit(const Program& program);

/// Cols a tile keeps in registers, of the segment with most; and vectors of its columns in a consumer's shared memory:
/// Rows, and the four warps' lines of each reduction down columns.
bool makes_vectors(const KernelSpec& spec);  ///< any Cols or Rows
int kept_cols(const KernelSpec& spec);
int row_vectors(const KernelSpec& spec);

/// The shape its schedule is chosen for, but for M, N and K.
GemmShape shape_of(const KernelSpec& spec);

/// "bf16, A K-major, B MN-major, B a pair": what of the factors a kernel depends on.
std::string factors_text(const KernelSpec& spec);

/// Everything a kernel's text depends on but its schedule, as text: what a recorded schedule is found by.
std::string identity_text(const KernelSpec& spec);

/// Nothing when the emitter can write the program's kernel; otherwise the reason why not.
std::optional<std::string> emit_refusal(const Program& program);

}  // namespace coda::cuda
