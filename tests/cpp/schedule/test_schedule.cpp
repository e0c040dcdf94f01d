// Schedules as text, the architectures, and the candidates of many products: each legal, each for a reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "coda/schedule.h"
#include "support/differences.h"

namespace coda {
namespace {

using testing_support::fresh_seed;

constexpr int kMultiprocessors = 132;

const Arch& hopper() { return *find_arch(9, 0); }

std::string text_of(const GemmShape& s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + (s.a_k_major ? " K" : " M") +
         (s.b_k_major ? "K" : "N") + (s.pair ? " pair" : "") + " parts " + std::to_string(s.k_parts) + " staged " +
         std::to_string(s.staged_inputs) + "+" + std::to_string(s.staged_outputs) + " granule " +
         std::to_string(s.column_granule) + " pressure " + std::to_string(static_cast<int>(s.pressure));
}

// Calls act with layouts × pair × K parts × staging × pressure of one size.
template <class Act>
void for_each_trait(GemmShape shape, Act act) {
  for (const bool a_k_major : {true, false})
    for (const bool b_k_major : {true, false})
      for (const bool pair : {false, true})
        for (const int k_parts : {1, 3})
          for (const int inputs : {0, 1, 2, 3})
            for (const int outputs : {0, 1, 2, 3})
              for (const Pressure pressure : {Pressure::Light, Pressure::Medium, Pressure::Heavy}) {
                if (pair && k_parts > 1) continue;
                shape.a_k_major = a_k_major;
                shape.b_k_major = b_k_major;
                shape.pair = pair;
                shape.k_parts = k_parts;
                shape.staged_inputs = inputs;
                shape.staged_outputs = outputs;
                shape.pressure = pressure;
                act(shape);
              }
}

TEST(ScheduleText, ReadsLikeASentence) {
  EXPECT_EQ(to_text(Schedule{}), "128x256 cooperative, 4 stages, cluster 1x1, raster 8, sub 64, buffers 2+2");
  const Schedule other{.tile_m = 64,
                       .tile_n = 192,
                       .stages = 3,
                       .cluster_m = 2,
                       .split_k = 2,
                       .ping_pong = true,
                       .raster_group = 16,
                       .sub = 32,
                       .input_buffers = 1,
                       .output_buffers = 3};
  EXPECT_EQ(to_text(other), "64x192 ping-pong, 3 stages, cluster 2x1, split 2, raster 16, sub 32, buffers 1+3");
  EXPECT_EQ(parse_schedule(to_text(other)), other);
}

TEST(ScheduleText, IsReadBackAsItWas) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uniform_int_distribution number(1, 2'000'000'000);
  for (int i = 0; i < 1000; ++i) {
    const auto some = [&] { return i % 2 == 0 ? number(random) : number(random) % 300 + 1; };
    Schedule s{.tile_m = some(), .tile_n = some(), .stages = some(), .cluster_m = some(), .cluster_n = some()};
    s.split_k = number(random) % 2 == 0 ? 1 : some();
    s.ping_pong = number(random) % 2 == 0;
    s.raster_group = some();
    s.sub = some();
    s.input_buffers = some();
    s.output_buffers = some();
    ASSERT_EQ(parse_schedule(to_text(s)), s) << to_text(s);
  }
}

TEST(Archs, AreFoundByComputeCapability) {
  std::set<std::string_view> names;
  for (const Arch& arch : arch_table()) {
    EXPECT_EQ(find_arch(arch.major, arch.minor), &arch);
    EXPECT_TRUE(names.insert(arch.name).second) << arch.name;
    EXPECT_GT(arch.shared_bytes, 48 * 1024) << arch.name;
  }
  EXPECT_EQ(hopper().name, "sm_90a");
  EXPECT_EQ(hopper().shared_bytes, 232448);
  EXPECT_EQ(find_arch(8, 0), nullptr);
  EXPECT_EQ(find_arch(9, 1), nullptr);
  EXPECT_EQ(find_arch(10, 0), nullptr);
}

TEST(SharedBytes, AreWhatOneCountsByHand) {
  // A stage holds (128 + 256) × 64 elements of 2 bytes, 49,152; a sub-tile 64 × 64 of them, 8192, for each of two
  // consumers and two buffers. A barrier has 8 bytes: two a stage.
  EXPECT_EQ(shared_bytes({}, {}), 4 * 49152 + 2 * 2 * 8192 + 8 * 8);
  EXPECT_EQ(shared_bytes({.stages = 3}, {.staged_outputs = 2}), 3 * 49152 + 2 * 2 * 2 * 8192 + 8 * 6);
  // Staged inputs have two barriers for each consumer and buffer.
  EXPECT_EQ(shared_bytes({.input_buffers = 3, .output_buffers = 1}, {.staged_inputs = 2, .staged_outputs = 1}),
            4 * 49152 + 2 * 8192 * (2 * 3 + 1) + 8 * (8 + 2 * 2 * 3) + 8);
  // Without staged inputs their buffers take nothing, and so for outputs.
  EXPECT_EQ(shared_bytes({.input_buffers = 7}, {.staged_outputs = 0}), 4 * 49152 + 8 * 8);
  // Split K has two barriers more.
  EXPECT_EQ(shared_bytes({.tile_n = 64, .stages = 6, .split_k = 2, .sub = 32}, {}),
            6 * (128 + 64) * 128 + 2 * 2 * 4096 + 8 * (12 + 2));
  EXPECT_EQ(shared_bytes({.ping_pong = true}, {.pair = true}), shared_bytes({}, {}));
}

void expect_sound(const GemmShape& shape, const std::vector<Candidate>& list) {
  SCOPED_TRACE(text_of(shape));
  std::set<std::string> texts;
  for (const Candidate& c : list) {
    SCOPED_TRACE(to_text(c.schedule));
    ASSERT_EQ(schedule_refusal(c.schedule, shape, hopper()), "");
    ASSERT_LE(shared_bytes(c.schedule, shape), hopper().shared_bytes);
    ASSERT_TRUE(texts.insert(to_text(c.schedule)).second) << "twice";
    ASSERT_NE(c.reason, "");
    ASSERT_EQ(parse_schedule(to_text(c.schedule)), c.schedule);
  }
}

TEST(Candidates, OfEveryShapeAreLegalDistinctAndHaveAReason) {
  for (const std::int64_t m : {0, 1, 77, 128, 1000, 4096, 16384})
    for (const std::int64_t n : {0, 1, 64, 500, 4096, 16384})
      for_each_trait({.m = m, .n = n, .k = m == 77 ? 1 : 4096}, [&](const GemmShape& shape) {
        const std::vector<Candidate> list = candidates(shape, hopper(), kMultiprocessors);
        // Even six staged tiles leave room for the ring of a small tile.
        ASSERT_FALSE(list.empty()) << text_of(shape);
        expect_sound(shape, list);
      });
}

TEST(Candidates, OfRandomShapesAreSound) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t end) { return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random); };
  for (int i = 0; i < 3000; ++i) {
    GemmShape shape{.m = 1 + below(std::int64_t{1} << below(15)), .n = 1 + below(std::int64_t{1} << below(15))};
    shape.k = 1 + below(16384);
    shape.a_k_major = below(2) == 0;
    shape.b_k_major = below(2) == 0;
    shape.pair = below(2) == 0;
    shape.k_parts = shape.pair ? 1 : 1 + static_cast<int>(below(4));
    shape.staged_inputs = static_cast<int>(below(4));
    shape.staged_outputs = static_cast<int>(below(4));
    shape.column_granule = std::int64_t{1} << below(8);
    shape.pressure = static_cast<Pressure>(below(3));
    expect_sound(shape, candidates(shape, hopper(), 1 + static_cast<int>(below(264))));
  }
}

TEST(Candidates, HoldWholeHeads) {
  for (const std::int64_t granule : {64, 96, 128, 256})
    for (const bool pair : {false, true}) {
      const GemmShape shape{.m = 4096, .n = 6144, .k = 4096, .pair = pair, .column_granule = granule};
      const std::vector<Candidate> list = candidates(shape, hopper(), kMultiprocessors);
      EXPECT_EQ(list.empty(), pair && granule > 128) << text_of(shape);
      for (const Candidate& c : list)
        EXPECT_EQ((pair ? c.schedule.tile_n / 2 : c.schedule.tile_n) % granule, 0) << to_text(c.schedule);
    }
}

// What runs when nobody tuned.
Schedule first(const GemmShape& shape) { return candidates(shape, hopper(), kMultiprocessors).at(0).schedule; }

TEST(Candidates, BeginWithALargeTileForManyTiles) {
  for (const std::int64_t m : {4096, 8192, 16384})
    for (const bool b_k_major : {true, false}) {
      const Schedule s = first({.m = m, .n = 8192, .k = 4096, .b_k_major = b_k_major});
      EXPECT_GE(s.tile_m * s.tile_n, 128 * 192) << to_text(s);
      EXPECT_EQ(s.split_k, 1) << to_text(s);
      EXPECT_GE(s.stages, 3) << to_text(s);
    }
}

TEST(Candidates, BeginWithASmallTileOrASplitForFewTiles) {
  for (const std::int64_t m : {1, 16, 64, 128})
    for (const std::int64_t n : {64, 512, 1024, 4096}) {
      const Schedule s = first({.m = m, .n = n, .k = 4096});
      EXPECT_TRUE(s.tile_m * s.tile_n <= 128 * 128 || s.split_k > 1) << m << " " << n << ": " << to_text(s);
    }
}

TEST(Candidates, NeverSplitKPartsNorPingPong) {
  for_each_trait({.m = 128, .n = 512, .k = 4096}, [](const GemmShape& shape) {
    for (const Candidate& c : candidates(shape, hopper(), kMultiprocessors)) {
      if (c.schedule.split_k == 1) continue;
      EXPECT_EQ(shape.k_parts, 1);
      EXPECT_FALSE(c.schedule.ping_pong);
      EXPECT_EQ(c.schedule.cluster_m * c.schedule.cluster_n, 1);
    }
  });
}

}  // namespace
}  // namespace coda
