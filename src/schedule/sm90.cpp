// Which schedules are legal on sm_90a, and which are worth timing.
#include <algorithm>
#include <numeric>

#include "coda/schedule.h"
#include "core/check.h"

namespace coda {
namespace {

constexpr int kBlockK = 64;
constexpr int kElementBytes = 2;
constexpr int kFloatBytes = 4;
constexpr int kConsumers = 2;
constexpr int kBarrierBytes = 8;
// More than shared memory holds of the smallest; so that no size computed from them overflows.
constexpr int kMostStages = 16;
constexpr int kMostBuffers = 8;
constexpr int kMostRasterRows = 64;

// Registers for accumulators that a consumer thread can spare of its 232 without spilling. Found by the static tests
// with NVRTC 13.0 and 13.2, whose register allocation differs.
int most_accumulators(Pressure pressure, int row_blocks, bool least_staging) {
  switch (pressure) {
    case Pressure::Light: return 192;
    case Pressure::Sums: return least_staging ? 192 : 128;
    case Pressure::Medium: return 128;
    case Pressure::PerRow: return row_blocks == 1 ? 128 : 96;
    case Pressure::Heavy: return 96;
    case Pressure::Heaviest: return 120;
  }
  return 0;
}

int rows_per_consumer(const Schedule& s) { return s.ping_pong ? s.tile_m : s.tile_m / kConsumers; }

int output_tile_n(const Schedule& s, const GemmShape& shape) { return shape.pair ? s.tile_n / 2 : s.tile_n; }

std::int64_t tiles(const Schedule& s, const GemmShape& shape) {
  const auto up = [](std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; };
  return up(shape.m, s.tile_m) * up(shape.n, output_tile_n(s, shape));
}

// The largest ring of operands that leaves room for the staging.
int most_stages(Schedule s, const GemmShape& shape, const Arch& arch) {
  for (s.stages = 6; s.stages > 1; --s.stages)
    if (shared_bytes(s, shape) <= arch.shared_bytes) break;
  return s.stages;
}

// The widest sub-tile that divides the tile: fewer barriers, larger boxes.
int widest_sub(const Schedule& s, const GemmShape& shape) {
  for (const int sub : {64, 32, 16})
    if (output_tile_n(s, shape) % sub == 0) return sub;
  return 16;
}

// Share of the tensor cores' rate a schedule reaches: small tiles read more operand bytes a product, and three stages
// are too few to hide their way (a bare product of 4096³ at 128 × 256 takes 2.5 % longer), which narrow boxes on the
// way out cost as well.
double efficiency(const Schedule& s) {
  const int area = s.tile_m * s.tile_n;
  const double of_tile = area >= 128 * 256   ? 1
                         : area >= 128 * 192 ? 0.98
                         : area >= 128 * 160 ? 0.94
                         : area >= 128 * 128 ? 0.88
                                             : 0.6;
  const double of_ring = s.stages < 4 || s.sub < 32 ? 0.975 : 1;
  return of_tile * of_ring * (s.split_k > 1 ? 0.9 : 1) * (s.ping_pong ? 1.02 : 1);
}

// Time in units of one product on one multiprocessor: whole waves of tiles, each at its efficiency.
double estimate(const Schedule& s, const GemmShape& shape, int multiprocessors) {
  const std::int64_t at_once = std::max(multiprocessors / s.split_k, 1);
  const std::int64_t waves = (tiles(s, shape) + at_once - 1) / at_once;
  return static_cast<double>(waves * s.tile_m * s.tile_n) / s.split_k / efficiency(s);
}

// Why a number of the schedule alone is none the kernel can be written with; empty when all are.
std::string range_refusal(const Schedule& s) {
  const auto outside = [](std::string_view name, int value, int least, int most) {
    return value >= least && value <= most ? std::string()
                                           : concat(name, " is ", value, ", expected ", least, " to ", most);
  };
  if (s.tile_m % 64 != 0 || (rows_per_consumer(s) != 64 && rows_per_consumer(s) != 128))
    return concat("tile_m is ", s.tile_m, ", expected 64 rows for each consumer's matrix product, or 128");
  if (s.tile_n % 16 != 0 || s.tile_n < 64 || s.tile_n > 256)
    return concat("tile_n is ", s.tile_n, ", expected a multiple of 16 from 64 to 256");
  if (s.sub != 16 && s.sub != 32 && s.sub != 64) return concat("sub is ", s.sub, ", expected 16, 32 or 64 columns");
  for (const std::string& refusal :
       {outside("stages", s.stages, 2, kMostStages), outside("cluster_m", s.cluster_m, 1, 2),
        outside("cluster_n", s.cluster_n, 1, 2), outside("split_k", s.split_k, 1, 2),
        outside("raster_group", s.raster_group, 1, kMostRasterRows),
        outside("input_buffers", s.input_buffers, 1, kMostBuffers),
        outside("output_buffers", s.output_buffers, 1, kMostBuffers)})
    if (!refusal.empty()) return refusal;
  return {};
}

class CandidateList {
 public:
  CandidateList(const GemmShape& shape, const Arch& arch) : shape_(shape), arch_(arch) {}

  // With the widest sub-tile, and where that leaves a short ring, as long a one as narrower sub-tiles and one output
  // buffer leave room for: it is worth more than what a consumer waits for them.
  void add(Schedule s, const std::string& reason) {
    s.sub = widest_sub(s, shape_);
    s.stages = most_stages(s, shape_, arch_);
    const Schedule longest = with_longest_ring(s);
    if (longest != s) add_one(longest, reason + "; narrow sub-tiles leave room for a longer ring");
    if (longest == s || s.stages >= 3) add_one(s, reason);
    if (shape_.staged_inputs > 0) add_whole_tile_in_flight(s, reason);
  }

  // One output buffer and narrow sub-tiles: for programs with no register to spare beside many accumulators.
  void add_least_staging(Schedule s, const std::string& reason) {
    s.sub = 32;
    s.output_buffers = 1;
    s.stages = most_stages(s, shape_, arch_);
    add_one(s, reason);
  }

  // One buffer each way and the widest sub-tile that fits so: for programs with more tiles than the others hold.
  void add_tight(Schedule s, const std::string& reason) {
    s.input_buffers = s.output_buffers = 1;
    for (s.sub = widest_sub(s, shape_); s.sub >= 16; s.sub /= 2) {
      s.stages = most_stages(s, shape_, arch_);
      if (schedule_refusal(s, shape_, arch_).empty()) return add_one(s, reason);
    }
  }

  bool empty() const { return list_.empty(); }

  // The one expected to be fastest first; equals in the order they were added.
  std::vector<Candidate> take(int multiprocessors) {
    std::ranges::stable_sort(list_, {},
                             [&](const Candidate& c) { return estimate(c.schedule, shape_, multiprocessors); });
    return std::move(list_);
  }

 private:
  Schedule with_longest_ring(Schedule s) const {
    Schedule longest = s;
    for (const int sub : {32, 16}) {
      if (sub >= longest.sub || output_tile_n(s, shape_) % sub != 0) continue;
      s.sub = sub;
      for (const int buffers : {2, 1}) {
        if (longest.stages >= 4) return longest;
        s.output_buffers = buffers;
        s.stages = most_stages(s, shape_, arch_);
        if (s.stages > longest.stages) longest = s;
      }
    }
    return longest;
  }

  // With two sub-tiles of inputs in flight the third is asked for when the first is done, and its way is waited for.
  void add_whole_tile_in_flight(Schedule s, const std::string& reason) {
    s.output_buffers = 1;
    for (; s.sub >= 32 && output_tile_n(s, shape_) % s.sub == 0; s.sub /= 2) {
      s.input_buffers = std::min(8, rows_per_consumer(s) / 64 * output_tile_n(s, shape_) / s.sub);
      s.stages = most_stages(s, shape_, arch_);
      if (s.stages >= 3) add_one(s, reason + "; a whole tile of inputs in flight");
    }
  }

  void add_one(const Schedule& s, const std::string& reason) {
    if (!schedule_refusal(s, shape_, arch_).empty()) return;
    const auto same = [&](const Candidate& c) { return c.schedule == s; };
    if (std::none_of(list_.begin(), list_.end(), same)) list_.push_back({s, reason});
  }

  const GemmShape& shape_;
  const Arch& arch_;
  std::vector<Candidate> list_;
};

}  // namespace

int shared_bytes(const Schedule& s, const GemmShape& shape) {
  const int operands = s.stages * (s.tile_m + s.tile_n) * kBlockK * kElementBytes;
  const int input_buffers = shape.staged_inputs > 0 ? s.input_buffers : 0;
  const int sub = 64 * s.sub * kElementBytes;
  const int staging =
      kConsumers * sub * (shape.staged_outputs * s.output_buffers + shape.staged_inputs * input_buffers);
  const int vectors = kConsumers * shape.row_vectors * output_tile_n(s, shape) * kFloatBytes;
  const int barriers = 2 * s.stages + 2 * kConsumers * input_buffers + (s.split_k > 1 ? 2 : 0);
  const int progress = shape.staged_inputs > 0 ? kBarrierBytes : 0;
  return operands + staging + vectors + kBarrierBytes * barriers + progress;
}

std::string schedule_refusal(const Schedule& s, const GemmShape& shape, const Arch& arch) {
  if (std::string refusal = range_refusal(s); !refusal.empty()) return refusal;
  const int accumulators = rows_per_consumer(s) / 64 * s.tile_n / 2;
  const bool cluster = s.cluster_m * s.cluster_n > 1;
  const bool least_staging = s.input_buffers <= 2 && s.output_buffers == 1;
  const int spare = most_accumulators(shape.pressure, rows_per_consumer(s) / 64, least_staging);
  if (accumulators > spare)
    return concat("a consumer would hold ", accumulators, " accumulators a thread, at most ", spare,
                  shape.pressure == Pressure::Light ? "" : " with this program");
  if (output_tile_n(s, shape) % s.sub != 0)
    return concat("sub-tiles of ", s.sub, " columns do not divide the tile's ", output_tile_n(s, shape));
  if (output_tile_n(s, shape) % shape.column_granule != 0)
    return concat("the program needs whole multiples of ", shape.column_granule, " columns, the tile has ",
                  output_tile_n(s, shape));
  // An MN-major operand comes in boxes of 64; each matrix of a pair fills half of B's.
  if (!shape.b_k_major && output_tile_n(s, shape) % 64 != 0)
    return concat("B is N-major, so a tile takes multiples of 64 columns, not ", output_tile_n(s, shape));
  if (s.cluster_m * s.cluster_n > 2)
    return concat("a cluster has ", s.cluster_m, "x", s.cluster_n, " blocks, expected one or two");
  if (s.split_k == 2 && (cluster || s.ping_pong || shape.k_parts > 1))
    return "K is split between the two blocks of a cluster, cooperative, without multicast, over one K part";
  const int bytes = shared_bytes(s, shape);
  if (bytes > arch.shared_bytes)
    return concat("it needs ", bytes, " bytes of shared memory, a block has ", arch.shared_bytes);
  return {};
}

std::vector<Candidate> candidates(const GemmShape& shape, const Arch& arch, int multiprocessors) {
  CandidateList list(shape, arch);
  const auto schedule = [](int m, int n, bool ping_pong, int cluster_m, int cluster_n, int raster, int split = 1) {
    return Schedule{.tile_m = m,
                    .tile_n = n,
                    .cluster_m = cluster_m,
                    .cluster_n = cluster_n,
                    .split_k = split,
                    .ping_pong = ping_pong,
                    .raster_group = raster};
  };
  const bool one_wave = tiles(schedule(128, 256, false, 1, 1, 8), shape) <= multiprocessors;
  // Most arithmetic for each byte of operands: 128 × 256 and 256 × 128 read 1/85 element a product.
  list.add(schedule(128, 256, false, 2, 1, 16), "largest tile, B shared by two blocks, tall raster for L2");
  list.add(schedule(128, 256, false, 2, 1, 8), "largest tile, B shared by two blocks");
  list.add(schedule(256, 128, false, 1, 2, 8), "largest tile, A shared by two blocks");
  list.add(schedule(256, 128, false, 2, 1, 8), "largest tile, B shared by two blocks");
  list.add(schedule(128, 256, false, 1, 2, 8), "largest tile, A shared by two blocks");
  list.add(schedule(128, 256, false, 1, 1, 8), "largest tile, no cluster: blocks do not wait for each other");
  // The epilogue of one tile under the product of the next, for programs that work long on a tile.
  list.add(schedule(128, 192, true, 2, 1, 8), "ping-pong hides the epilogue");
  if (shape.pressure == Pressure::Sums)
    list.add_least_staging(schedule(128, 192, true, 2, 1, 8), "ping-pong hides the epilogue");
  list.add(schedule(128, 128, true, 2, 1, 8), "ping-pong hides the epilogue, smaller tiles even out the last wave");
  list.add(schedule(128, 160, true, 2, 1, 8), "ping-pong, another quantum of columns for the last wave");
  list.add(schedule(128, 192, false, 2, 1, 8), "another quantum of columns for the last wave");
  if (shape.pressure >= Pressure::Heavy)
    list.add(schedule(128, 128, false, 2, 1, 8), "few accumulators: the program needs the registers");
  if (one_wave) {
    // Too few tiles to fill the chip: smaller ones, or two blocks a tile.
    list.add(schedule(128, 128, false, 1, 1, 8), "few tiles: smaller ones reach more multiprocessors");
    list.add(schedule(128, 64, false, 1, 1, 8), "few tiles: smaller ones reach more multiprocessors");
    list.add(schedule(128, 256, false, 1, 1, 8, 2), "few tiles: two blocks share each one's K");
    list.add(schedule(128, 128, false, 1, 1, 8, 2), "few tiles: two blocks share each one's K");
    list.add(schedule(128, 64, false, 1, 1, 8, 2), "few tiles: two blocks share each one's K");
  }
  // Tiles of whole heads where no tile above has them.
  if (256 % shape.column_granule != 0) {
    for (std::int64_t n = shape.column_granule; n <= 256; n += shape.column_granule) {
      const auto width = static_cast<int>(shape.pair ? 2 * n : n);
      if (width > 256) break;
      list.add(schedule(128, width, false, 2, 1, 8), "whole heads in a tile");
      list.add(schedule(128, width, false, 1, 1, 8), "whole heads in a tile, no cluster");
    }
  }
  if (list.empty())
    for (const int width : {256, 128, 64})
      list.add_tight(schedule(128, width, false, 1, 1, 8), "the program's tiles leave room for one buffer each");
  return list.take(multiprocessors);
}

std::string no_schedule_reason(const GemmShape& shape, const Arch& arch) {
  const int most = output_tile_n({.tile_n = std::min(256, 2 * most_accumulators(shape.pressure, 1, true))}, shape);
  if (std::lcm(shape.column_granule, std::int64_t{16}) > most)
    return concat("it needs whole multiples of ", shape.column_granule,
                  shape.column_granule % 16 == 0 ? "" : " and of 16", " columns in a tile, which has at most ", most,
                  ": use narrower heads or partials, or run it on the CPU");
  const Schedule smallest{
      .tile_n = shape.pair ? 128 : 64, .stages = 2, .sub = 16, .input_buffers = 1, .output_buffers = 1};
  return concat("its tiles (", shape.staged_inputs, " in, ", shape.staged_outputs, " out, in units of 16 bits) need ",
                shared_bytes(smallest, shape), " bytes of shared memory at the least, a block has ", arch.shared_bytes,
                ": split it into two programs");
}

}  // namespace coda
