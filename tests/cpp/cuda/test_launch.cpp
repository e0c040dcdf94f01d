// What a run launches: one kernel on the caller's stream, its grid, and a parameter that holds what the kernel reads.
#include "cuda/emit/program.h"
#include "cuda/launch_support.h"

namespace coda::testing_support {
namespace {

using Launch = LaunchTest;

constexpr Schedule kPlain{.tile_m = 128, .tile_n = 128, .stages = 4};

TEST_F(Launch, IsOneKernelOnTheCallersStream) {
  const Problem problem = linear(1000, 512, 256, epilogues::bias("gelu"));
  const auto made = plan(problem, &kPlain);
  EXPECT_TRUE(fake_gpu().launches.empty()) << "a plan runs nothing";
  made->run(problem, {.stream = fake_stream(7)});
  made->run(problem);
  ASSERT_EQ(fake_gpu().launches.size(), 2u);
  const FakeLaunch& launch = fake_gpu().launches[0];
  EXPECT_EQ(launch.stream, fake_stream(7));
  EXPECT_EQ(fake_gpu().launches[1].stream, nullptr) << "the default stream";
  EXPECT_EQ(launch.grid, 8u * 4u);
  EXPECT_EQ(launch.block, 384u);
  EXPECT_EQ(launch.cluster, 1u);
  EXPECT_EQ(launch.shared_bytes, static_cast<unsigned>(shared_bytes(kPlain, {.row_vectors = 1})));
  EXPECT_EQ(launch.context, fake_context(0));
  EXPECT_EQ(launch.kernel->context, fake_context(0));
  EXPECT_NE(launch.kernel->text.find("// bias_gelu_128x128"), std::string::npos);
  EXPECT_EQ(*made->schedule(), kPlain);
  EXPECT_EQ(made->workspace_bytes(problem), 0u);
  EXPECT_TRUE(fake_gpu().allocations.empty());
}

TEST_F(Launch, ParameterHoldsExtentsAndOperands) {
  Builder b("everything");
  b.store("out", b.acc() * b.load_scalar("alpha") + b.load_row("bias") + b.load_col("shift") + b.load_tile("x"));
  const Program program = b.build();
  const Problem problem = linear(300, 130, 1000, program);  // 130 columns: `out` is not staged
  const Schedule schedule{.tile_m = 128, .tile_n = 128, .stages = 3, .raster_group = 5};
  const FakeLaunch launch = launched(problem, &schedule);
  const cuda::ParamsLayout at = layout_of(problem);
  ASSERT_EQ(launch.parameters.size(), at.size);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.k_blocks), 16);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.segment_tiles), 2);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.cluster_rows), 3);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.cluster_cols), 2);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.raster_group), 5);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.arguments[0]), 300);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.arguments[0] + 4), 130);
  const cuda::KernelSpec spec = cuda::specialise(problem);
  std::size_t matrix = at.arguments[0] + 8;
  for (const int operand : cuda::matrix_operands(spec.segments[0])) {
    const TensorView& tensor = problem.segments[0].operands[static_cast<std::size_t>(operand)];
    SCOPED_TRACE(program.operand(operand).name);
    EXPECT_EQ(value_at<void*>(launch, matrix), tensor.data());
    EXPECT_EQ(value_at<std::int64_t>(launch, matrix + 8), tensor.stride(0));
    EXPECT_EQ(value_at<std::int64_t>(launch, matrix + 16), tensor.stride(1));
    matrix += cuda::kMatrixBytes;
  }
  EXPECT_EQ(matrix, at.k_blocks) << "each but those staged";
}

TEST_F(Launch, ParameterHoldsSegments) {
  const Problem along_n =
      fake_problem(placed(256, 64), concat({placed(64, 512), placed(64, 0), placed(64, 72)}), epilogues::bias());
  const FakeLaunch launch = launched(along_n, &kPlain);
  const cuda::ParamsLayout at = layout_of(along_n);
  for (const std::size_t s : {0u, 1u, 2u}) {
    EXPECT_EQ(value_at<std::int32_t>(launch, at.segment_tiles + 4 * s), (std::vector{4, 0, 1})[s]);
    EXPECT_EQ(value_at<std::int32_t>(launch, at.arguments[s]), 256);
    EXPECT_EQ(value_at<std::int32_t>(launch, at.arguments[s] + 4), along_n.segments[s].cols);
    EXPECT_EQ(value_at<void*>(launch, at.arguments[s] + 8), along_n.segments[s].operands[0].data());
    if (s == 1) continue;
    EXPECT_EQ(map_at(launch, at.b, s).data, along_n.b.parts[s].data());
    EXPECT_EQ(map_at(launch, at.outputs, s).data, along_n.segments[s].operands[1].data());
  }
  EXPECT_EQ(launch.grid, 2u * 5u);
  EXPECT_EQ(fake_gpu().maps.size(), 5u) << "A, and two of B and out: the empty segment has none";
  const Problem along_m = fake_problem(concat({placed(128, 64), placed(300, 64)}), placed(64, 512));
  const FakeLaunch other = launched(along_m, &kPlain);
  EXPECT_EQ(other.grid, 4u * 4u);
  EXPECT_EQ(value_at<std::int32_t>(other, layout_of(along_m).segment_tiles + 4), 3);
  EXPECT_EQ(map_at(other, layout_of(along_m).a, 1).data, along_m.a.parts[1].data());
}

TEST_F(Launch, ParameterHoldsPartsOfK) {
  const Problem problem = fake_problem(concat_k({placed(256, 64), placed(256, 200), placed(256, 0)}),
                                       concat_k({placed(64, 128), placed(200, 128), placed(0, 128)}));
  const FakeLaunch launch = launched(problem, &kPlain);
  const cuda::ParamsLayout at = layout_of(problem);
  for (const std::size_t part : {0u, 1u, 2u}) {
    EXPECT_EQ(value_at<std::int32_t>(launch, at.k_blocks + 4 * part), (std::vector{1, 4, 0})[part]);
    if (part == 2) continue;
    EXPECT_EQ(map_at(launch, at.a, part).data, problem.a.parts[part].data());
    EXPECT_EQ(map_at(launch, at.b, part).data, problem.b.parts[part].data());
  }
}

TEST_F(Launch, OfAnEmptyOutputIsNone) {
  for (const auto& [m, n] : {std::pair{0, 64}, {64, 0}, {0, 0}}) {
    const Problem problem = linear(m, n, 128);
    plan(problem)->run(problem, {.stream = fake_stream()});
    EXPECT_TRUE(fake_gpu().launches.empty());
    EXPECT_TRUE(fake_gpu().maps.empty());
  }
}

TEST_F(Launch, OfAnEmptyKRunsTheEpilogue) {
  const Problem problem = linear(200, 256, 0, epilogues::bias());
  for (const Schedule& schedule : {kPlain, Schedule{.tile_n = 128, .split_k = 2}}) {
    const FakeLaunch launch = launched(problem, &schedule);
    EXPECT_EQ(value_at<std::int32_t>(launch, layout_of(problem).k_blocks), 0);
    EXPECT_EQ(launch.grid, 2u * 2u * static_cast<unsigned>(schedule.split_k));
    EXPECT_EQ(fake_gpu().maps.back().data, problem.segments[0].operands[1].data()) << "A and B have no map";
  }
  EXPECT_EQ(fake_gpu().maps.size(), 2u);
}

TEST_F(Launch, OfAnotherMNeedsNoOtherKernel) {
  const Program program = epilogues::bias();
  const Problem first = linear(128, 512, 256, program);
  const auto made = plan(first, &kPlain);
  for (const std::int64_t m : {1, 128, 129, 5000, 0, 1000000}) {
    fake_gpu().launches.clear();
    const Problem problem = linear(m, 512, 256, program);
    made->run(problem, {.stream = fake_stream()});
    ASSERT_EQ(fake_gpu().launches.size(), m == 0 ? 0u : 1u) << m;
    if (m == 0) continue;
    const FakeLaunch& launch = fake_gpu().launches[0];
    const cuda::ParamsLayout at = layout_of(problem);
    const std::int64_t rows = (m + 127) / 128;
    EXPECT_EQ(launch.grid, static_cast<unsigned>(std::min<std::int64_t>(rows * 4, 132))) << m;
    EXPECT_EQ(value_at<std::int32_t>(launch, at.cluster_rows), rows);
    EXPECT_EQ(value_at<std::int32_t>(launch, at.arguments[0]), m);
    EXPECT_EQ(map_at(launch, at.a).outer, static_cast<std::uint64_t>(m));
    EXPECT_EQ(map_at(launch, at.a).data, problem.a.parts[0].data());
    EXPECT_EQ(map_at(launch, at.outputs).data, problem.segments[0].operands[1].data());
  }
  EXPECT_EQ(compilations(), 1);
  EXPECT_EQ(fake_gpu().calls["module_load"], 1);
}

TEST_F(Launch, OfAWarmedPlanAsksTheDriverForNothingElse) {
  const Problem problem = linear(1000, 512, 256, epilogues::residual());
  const auto made = plan(problem);
  made->run(problem, {.stream = fake_stream()});
  fake_gpu().calls.clear();
  fake_gpu().capturing = {fake_stream()};
  made->run(problem, {.stream = fake_stream()});
  EXPECT_EQ(fake_gpu().calls,
            (std::map<std::string, int>{{"context_push", 1}, {"context_pop", 1}, {"encode_tiled", 4}, {"launch", 1}}));
  EXPECT_EQ(compilations(), 1);
}

TEST_F(Launch, TakesAsManyBlocksAsRunAtOnce) {
  const Problem problem = linear(16384, 4096, 512);
  for (const Schedule& schedule :
       {kPlain, Schedule{.cluster_m = 2}, Schedule{.tile_m = 256, .tile_n = 128, .cluster_n = 2}}) {
    const FakeLaunch launch = launched(problem, &schedule);
    EXPECT_EQ(launch.grid, 132u) << to_text(schedule);
    EXPECT_EQ(launch.cluster, static_cast<unsigned>(schedule.cluster_m * schedule.cluster_n));
  }
  fake_gpu().active_clusters = 50;  // of two: a GPU that others use, or whose clusters leave multiprocessors idle
  const Schedule other{.stages = 3, .cluster_m = 2};
  EXPECT_EQ(launched(problem, &other).grid, 100u);
}

TEST_F(Launch, WithSplitKHasACapOfNone) {
  fake_gpu().active_clusters = 3;
  const Schedule split{.tile_m = 128, .tile_n = 128, .split_k = 2};
  const FakeLaunch launch = launched(linear(1024, 1024, 512), &split);
  EXPECT_EQ(launch.grid, 8u * 8u * 2u) << "each pair of blocks has one tile";
  EXPECT_EQ(launch.cluster, 2u);
}

TEST_F(Launch, WithClustersCountsTheirTiles) {
  const Problem problem = linear(300, 300, 64);
  const Schedule tall{.tile_n = 128, .cluster_m = 2}, wide{.tile_n = 128, .cluster_n = 2};
  FakeLaunch launch = launched(problem, &tall);
  const cuda::ParamsLayout at = layout_of(problem);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.cluster_rows), 2);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.cluster_cols), 3);
  EXPECT_EQ(launch.grid, 2u * 6u);
  launch = launched(problem, &wide);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.cluster_rows), 3);
  EXPECT_EQ(value_at<std::int32_t>(launch, at.cluster_cols), 2);
}

TEST_F(Launch, OfAProgramThatIgnoresAnOperand) {
  Builder b("ignoring");
  const Value dropped = b.load_tile("dropped"), kept = b.load_row("kept");
  b.store("out", select(b.constant(1), b.acc() + kept, dropped));
  const Program program = b.build();
  const Problem problem = linear(128, 128, 64, program);
  const auto data_of = [&](std::string_view name) {
    return problem.segments[0].operands[static_cast<std::size_t>(program.find_operand(name))].data();
  };
  const FakeLaunch launch = launched(problem, &kPlain);
  const cuda::ParamsLayout at = layout_of(problem);
  EXPECT_EQ(value_at<void*>(launch, at.arguments[0] + 8), data_of("kept"));
  EXPECT_EQ(map_at(launch, at.outputs).data, data_of("out"));
}

TEST_F(Launch, TakesARecordedScheduleOfItsBucket) {
  const Problem problem = linear(1000, 512, 256);
  const std::string kernel = cuda::identity_text(cuda::specialise(problem));
  const Schedule recorded{.tile_m = 128, .tile_n = 64, .stages = 5, .raster_group = 3};
  keep_record({{"NVIDIA H200", kernel, 1024, 512, 256}, recorded, 1, "2026-11-29"});
  EXPECT_EQ(*plan(problem)->schedule(), recorded);
  EXPECT_EQ(*plan(linear(513, 512, 256))->schedule(), recorded);
  EXPECT_NE(*plan(linear(512, 512, 256))->schedule(), recorded);
  EXPECT_EQ(*plan(problem, &kPlain)->schedule(), kPlain) << "what the caller asks for comes first";
  keep_record({{"NVIDIA H200", kernel, 1024, 512, 256}, {.stages = 16}, 1, "2026-11-29"});
  EXPECT_EQ(schedule_refusal(*plan(problem)->schedule(), {}, *find_arch(9, 0)), "") << "one that does not fit is none";
}

}  // namespace
}  // namespace coda::testing_support
