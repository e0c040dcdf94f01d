// Every mistake src/schedule refuses, and its text.
#include "coda/schedule.h"

#include <gtest/gtest.h>

#include "support/error_row.h"

namespace coda {
namespace {

using testing_support::ErrorRow;
using testing_support::expect_errors;

struct Refused {
  std::string reason;
  Schedule schedule;
  GemmShape shape{};
};

TEST(ScheduleErrors, OfASchedulesNumbersHaveTheirText) {
  const std::string rows = ", expected 64 rows for each consumer's matrix product, or 128";
  const std::string columns = ", expected a multiple of 16 from 64 to 256";
  const Refused table[] = {
      {"tile_m is 0" + rows, {.tile_m = 0}},
      {"tile_m is -128" + rows, {.tile_m = -128}},
      {"tile_m is 96" + rows, {.tile_m = 96}},
      {"tile_m is 64" + rows, {.tile_m = 64}},
      {"tile_m is 192" + rows, {.tile_m = 192}},
      {"tile_m is 320" + rows, {.tile_m = 320}},
      {"tile_m is 192" + rows, {.tile_m = 192, .tile_n = 64, .ping_pong = true}},
      {"tile_n is 0" + columns, {.tile_n = 0}},
      {"tile_n is 48" + columns, {.tile_n = 48}},
      {"tile_n is 136" + columns, {.tile_n = 136}},
      {"tile_n is 272" + columns, {.tile_n = 272}},
      {"sub is 0, expected 16, 32 or 64 columns", {.sub = 0}},
      {"sub is 48, expected 16, 32 or 64 columns", {.tile_n = 192, .sub = 48}},
      {"sub is 128, expected 16, 32 or 64 columns", {.sub = 128}},
      {"stages is 1, expected 2 to 16", {.stages = 1}},
      {"stages is 100000000, expected 2 to 16", {.stages = 100000000}},
      {"cluster_m is 0, expected 1 to 2", {.cluster_m = 0}},
      {"cluster_n is 3, expected 1 to 2", {.cluster_n = 3}},
      {"split_k is 0, expected 1 to 2", {.split_k = 0}},
      {"split_k is 4, expected 1 to 2", {.split_k = 4}},
      {"raster_group is 0, expected 1 to 64", {.raster_group = 0}},
      {"input_buffers is 0, expected 1 to 8", {.input_buffers = 0}},
      {"output_buffers is 9, expected 1 to 8", {.output_buffers = 9}},
      {"a cluster has 2x2 blocks, expected one or two", {.cluster_m = 2, .cluster_n = 2}},
  };
  for (const Refused& row : table) EXPECT_EQ(schedule_refusal(row.schedule, row.shape, *find_arch(9, 0)), row.reason);
}

TEST(ScheduleErrors, OfAScheduleForAProductHaveTheirText) {
  const std::string split =
      "K is split between the two blocks of a cluster, cooperative, without multicast, over one K part";
  const Schedule small{.tile_n = 128};
  const Refused table[] = {
      {"a consumer would hold 256 accumulators a thread, at most 192", {.tile_m = 256}},
      {"a consumer would hold 192 accumulators a thread, at most 128 with this program",
       {.tile_m = 256, .tile_n = 192},
       {.pressure = Pressure::Medium}},
      {"a consumer would hold 128 accumulators a thread, at most 96 with this program",
       {.tile_m = 256, .tile_n = 128},
       {.pressure = Pressure::Heavy}},
      {"a consumer would hold 256 accumulators a thread, at most 192", {.tile_m = 128, .ping_pong = true}},
      {"sub-tiles of 64 columns do not divide the tile's 160", {.tile_n = 160}},
      {"sub-tiles of 16 columns do not divide the tile's 40", {.tile_n = 80, .sub = 16}, {.pair = true}},
      {"the program needs whole multiples of 96 columns, the tile has 128", small, {.column_granule = 96}},
      {"B is N-major, so a tile takes multiples of 64 columns, not 160",
       {.tile_n = 160, .sub = 32},
       {.b_k_major = false}},
      {"B is N-major, so a tile takes multiples of 64 columns, not 96",
       {.tile_n = 192, .sub = 32},
       {.b_k_major = false, .pair = true}},
      {split, {.tile_n = 128, .cluster_m = 2, .split_k = 2}},
      {split, {.tile_n = 128, .cluster_n = 2, .split_k = 2}},
      {split, {.tile_n = 128, .split_k = 2, .ping_pong = true}},
      {split, {.tile_n = 128, .split_k = 2}, {.k_parts = 2}},
      {"it needs 278608 bytes of shared memory, a block has 232448", {.stages = 5}},
      {"it needs 262208 bytes of shared memory, a block has 232448", {}, {.staged_outputs = 2}},
  };
  for (const Refused& row : table) EXPECT_EQ(schedule_refusal(row.schedule, row.shape, *find_arch(9, 0)), row.reason);
}

TEST(ScheduleErrors, OfTextHaveTheirText) {
  const std::string cure = ": write it as 128x256 cooperative, 4 stages, cluster 1x1, raster 8, sub 64, buffers 2+2";
  const auto row = [&](const std::string& text, const std::string& found, const std::string& expected) {
    return ErrorRow{typeid(ValueError), "parse_schedule: found '" + found + expected + cure,
                    [text] { parse_schedule(text); }};
  };
  const std::string good = to_text(Schedule{});
  expect_errors({
      row("", "' in '", "', expected a positive number"),
      row("wide", "wide' in 'wide", "', expected a positive number"),
      row("-128x256", "-128x256' in '-128x256", "', expected a positive number"),
      row("0x256", "0x256' in '0x256", "', expected a positive number"),
      row("99999999999x8", "99999999999x8' in '99999999999x8", "', expected a positive number"),
      row("128*256", "*256' in '128*256", "', expected 'x'"),
      row("128x256", "' in '128x256", "', expected ' cooperative, '"),
      row("128x256 pingpong, 4", " pingpong, 4' in '128x256 pingpong, 4", "', expected ' cooperative, '"),
      row("128x256 cooperative, 4 stages", " stages' in '128x256 cooperative, 4 stages",
          "', expected ' stages, cluster '"),
      row(good + " ", " ' after the end of '" + good + " ", "', expected nothing"),
  });
}

}  // namespace
}  // namespace coda
