// Schedule: how one kernel is cut up: tile, ring, clusters, order of tiles. A schedule never changes what a program
// means; which are legal for a product, and which are worth timing, is decided here by rule.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coda {

/// What schedules need to know of a GPU architecture.
struct Arch {
  std::string_view name;  ///< as the compiler takes it: "sm_90a"
  int major = 0;          ///< compute capability
  int minor = 0;
  int shared_bytes = 0;  ///< shared memory one block may have
};

std::span<const Arch> arch_table();

/// The row of a compute capability, or null: coda has no kernels for it.
const Arch* find_arch(int major, int minor);

/// One way to run a product on sm_90a (docs/hopper.md draws the kernel).
struct Schedule {
  int tile_m = 128;  ///< rows and columns of the accumulator tile of one block
  int tile_n = 256;
  int stages = 4;          ///< slots of the operand ring, 64 of K each
  int cluster_m = 1;       ///< blocks of a cluster that share B, one below the other
  int cluster_n = 1;       ///< blocks of a cluster that share A, side by side
  int split_k = 1;         ///< blocks of a cluster that share one tile's K
  bool ping_pong = false;  ///< the two consumers work on a tile each, not on halves of one
  int raster_group = 8;    ///< rows of cluster tiles walked before the next column: reuse in L2
  int sub = 64;            ///< columns of a staged sub-tile of 64 rows
  int input_buffers = 2;   ///< sub-tiles in flight for staged inputs, and for staged outputs
  int output_buffers = 2;

  bool operator==(const Schedule&) const = default;
};

/// "128x256 cooperative, 4 stages, cluster 2x1, raster 8, sub 64, buffers 2+2".
std::string to_text(const Schedule& schedule);

/// Errors: ValueError naming what was found where.
Schedule parse_schedule(std::string_view text);

/// How many registers a program asks for beside the accumulator.
enum class Pressure : std::uint8_t {
  Light,     ///< arithmetic on the accumulator, staged tiles and a vector or two
  Sums,      ///< one sum down columns, or along rows without Cols
  Medium,    ///< pairs of columns apart, other reductions, tiles that the threads load by themselves
  PerRow,    ///< reductions beside Cols: a second row block doubles what is kept
  Heavy,     ///< long ops (polynomials, slow paths: erf, division) beside Cols
  Heaviest,  ///< sums over heads beside pairs
};

/// What a schedule must know of a product.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_k_major = true;  ///< K is contiguous in A; else M is
  bool b_k_major = true;  ///< K is contiguous in B; else N is
  bool pair = false;      ///< B is two matrices, a tile takes half its columns from each
  int k_parts = 1;        ///< matrices concatenated along K
  int staged_inputs = 0;  ///< tile operands that come and go through shared memory, of the segment with most
  int staged_outputs = 1;
  int row_vectors = 0;  ///< vectors of its columns that a tile keeps in shared memory, of the segment with most
  std::int64_t column_granule = 1;  ///< columns a tile must hold whole multiples of
  Pressure pressure = Pressure::Light;
};

/// Shared memory the schedule needs, in bytes.
int shared_bytes(const Schedule& schedule, const GemmShape& shape);

/// Empty when the schedule fits, else the reason why not.
std::string schedule_refusal(const Schedule& schedule, const GemmShape& shape, const Arch& arch);

struct Candidate {
  Schedule schedule;
  std::string reason;  ///< why it is worth timing
};

/// Why a product has no candidate: the program's budget, and what to change.
std::string no_schedule_reason(const GemmShape& shape, const Arch& arch);

/// Schedules worth timing, the one expected to be fastest first; a product no schedule fits has none.
std::vector<Candidate> candidates(const GemmShape& shape, const Arch& arch, int multiprocessors);

}  // namespace coda
