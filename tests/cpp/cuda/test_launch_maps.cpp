// The tensor maps of a launch: extents, pitches, boxes and swizzles of A, B and the tiles that come staged.
#include <random>

#include "cuda/launch_support.h"
#include "support/differences.h"

namespace coda::testing_support {
namespace {

using LaunchMaps = LaunchTest;

constexpr int kF16 = 6, kF32 = 7, kBf16 = 9;  // CU_TENSOR_MAP_DATA_TYPE_…
constexpr int kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3;
constexpr Schedule kPlain{.tile_m = 128, .tile_n = 128, .stages = 4};

struct Expected {
  int type = kBf16;
  void* data = nullptr;
  std::uint64_t inner = 0, outer = 0, pitch = 0;
  std::uint32_t box_inner = 64, box_outer = 64;
  int swizzle = kSwizzle128;
};

void expect_map(const FakeMap& got, const Expected& expected) {
  EXPECT_EQ(got.type, expected.type);
  EXPECT_EQ(got.data, expected.data);
  EXPECT_EQ(got.inner, expected.inner);
  EXPECT_EQ(got.outer, expected.outer);
  EXPECT_EQ(got.pitch, expected.pitch);
  EXPECT_EQ(got.box_inner, expected.box_inner);
  EXPECT_EQ(got.box_outer, expected.box_outer);
  EXPECT_EQ(got.swizzle, expected.swizzle);
}

TEST_F(LaunchMaps, OfEachLayout) {
  for (const DType dtype : {DType::BF16, DType::F16})
    for (const bool a_t : {false, true})
      for (const bool b_t : {false, true}) {
        const TensorView a = placed(304, 200, dtype, a_t, a_t ? 312 : 208), b = placed(200, 520, dtype, b_t, 0);
        const Problem problem = fake_problem(a, b);
        const FakeLaunch launch = launched(problem, &kPlain);
        const cuda::ParamsLayout at = layout_of(problem);
        const int type = dtype == DType::F16 ? kF16 : kBf16;
        SCOPED_TRACE(std::string(a_t ? "A M-major" : "A K-major") + (b_t ? ", B K-major" : ", B N-major"));
        // K-major: lines of K, a box holds the tile's lines. MN-major: lines of M or N, 64 × 64 a box.
        expect_map(map_at(launch, at.a), a_t ? Expected{type, a.data(), 304, 200, 624, 64, 64}
                                             : Expected{type, a.data(), 200, 304, 416, 64, 128});
        expect_map(map_at(launch, at.b), b_t ? Expected{type, b.data(), 200, 520, 400, 64, 128}
                                             : Expected{type, b.data(), 520, 200, 1040, 64, 64});
      }
}

TEST_F(LaunchMaps, OfOperandsAMulticastShares) {
  const Problem problem = linear(512, 512, 512);
  const cuda::ParamsLayout at = layout_of(problem);
  const auto boxes = [&](const Schedule& schedule) {
    const FakeLaunch launch = launched(problem, &schedule);
    return std::pair(map_at(launch, at.a).box_outer, map_at(launch, at.b).box_outer);
  };
  EXPECT_EQ(boxes({.tile_n = 192}), std::pair(128u, 192u));
  EXPECT_EQ(boxes({.tile_n = 192, .cluster_m = 2}), std::pair(128u, 96u)) << "B by halves";
  EXPECT_EQ(boxes({.tile_n = 192, .cluster_n = 2}), std::pair(64u, 192u)) << "A by halves";
  EXPECT_EQ(boxes({.tile_m = 256, .tile_n = 128, .cluster_n = 2}), std::pair(128u, 128u));
  EXPECT_EQ(boxes({.tile_n = 128, .split_k = 2}), std::pair(128u, 128u)) << "shares nothing";
  // Boxes of MN-major operands are whole: the blocks take turns.
  const Problem other = fake_problem(placed(512, 512, DType::BF16, true), placed(512, 512));
  const Schedule shared{.tile_n = 128, .cluster_m = 2};
  EXPECT_EQ(map_at(launched(other, &shared), layout_of(other).b).box_outer, 64u);
}

TEST_F(LaunchMaps, OfAPair) {
  const TensorView gate = placed(256, 512, DType::BF16, true), up = placed(256, 512, DType::BF16, true, 264);
  const Problem problem = fake_problem(placed(512, 256), pair(gate, up), epilogues::gated());
  const cuda::ParamsLayout at = layout_of(problem);
  const Schedule whole{.tile_n = 192, .sub = 32}, shared{.tile_n = 192, .cluster_m = 2, .sub = 32};
  const FakeLaunch launch = launched(problem, &whole);
  expect_map(map_at(launch, at.b, 0), {kBf16, gate.data(), 256, 512, 512, 64, 96});
  expect_map(map_at(launch, at.b, 1), {kBf16, up.data(), 256, 512, 528, 64, 96});
  EXPECT_EQ(map_at(launched(problem, &shared), at.b, 1).box_outer, 48u);
}

TEST_F(LaunchMaps, OfStagedTiles) {
  const TensorView x = placed(100, 264, DType::BF16, false, 272), out = placed(100, 264, DType::F32, false, 268);
  const Segment segment{epilogues::residual(), {{"residual", x}, {"out", out}}};
  const Problem problem = coda::bind("gemm", placed(100, 64), placed(64, 264), {&segment, 1});
  const cuda::ParamsLayout at = layout_of(problem);
  struct Case {
    int sub;
    std::uint32_t box, wide_box;
    int swizzle, wide_swizzle;
  };
  // A box is a sub-tile, of an output a warp's 16 rows of it; of fp32 elements at most 128 bytes, the widest swizzle.
  for (const Case& c : {Case{64, 64, 32, kSwizzle128, kSwizzle128}, Case{32, 32, 32, kSwizzle64, kSwizzle128},
                        Case{16, 16, 16, kSwizzle32, kSwizzle64}}) {
    const Schedule schedule{.tile_n = 128, .stages = 3, .sub = c.sub};
    const FakeLaunch launch = launched(problem, &schedule);
    SCOPED_TRACE(c.sub);
    expect_map(map_at(launch, at.inputs), {kBf16, x.data(), 264, 100, 544, c.box, 64, c.swizzle});
    expect_map(map_at(launch, at.outputs), {kF32, out.data(), 264, 100, 1072, c.wide_box, 16, c.wide_swizzle});
  }
}

TEST_F(LaunchMaps, OfOneRowHaveAPitchTheCopyEngineTakes) {
  // One row has stride 0, and its length need be no multiple of 16 bytes.
  const TensorView x = placed(1, 100, DType::BF16, false, 3), out = placed(1, 104, DType::F32);
  const Segment narrow{epilogues::residual(), {{"residual", x}, {"out", placed(1, 100, DType::BF16)}}};
  const Problem one = coda::bind("gemm", placed(1, 50), placed(50, 100, DType::BF16, true, 56), {&narrow, 1});
  ASSERT_EQ(one.segments[0].operands[0].stride(0), 0);
  const FakeLaunch launch = launched(one, &kPlain);
  const cuda::ParamsLayout at = layout_of(one);
  expect_map(map_at(launch, at.a), {kBf16, one.a.parts[0].data(), 50, 1, 112, 64, 128});
  expect_map(map_at(launch, at.inputs), {kBf16, x.data(), 100, 1, 208, 64, 64});
  const Segment wide{epilogues::identity(), {{"out", out}}};
  const Problem other = coda::bind("gemm", placed(1, 64), placed(64, 104), {&wide, 1});
  expect_map(map_at(launched(other, &kPlain), layout_of(other).outputs), {kF32, out.data(), 104, 1, 416, 32, 16});
}

TEST_F(LaunchMaps, OfOneColumn) {
  const Problem problem = linear(512, 1, 256);
  const FakeLaunch launch = launched(problem, &kPlain);
  expect_map(map_at(launch, layout_of(problem).b), {kBf16, problem.b.parts[0].data(), 256, 1, 512, 64, 128});
  EXPECT_EQ(launch.grid, 4u);
  EXPECT_EQ(fake_gpu().maps.size(), 2u) << "the column is stored by the threads";
}

TEST_F(LaunchMaps, OfAnEmptySegmentAreNone) {
  // Tensors of no columns, but with the pitch of the matrix they are cut from.
  const Program program = epilogues::residual();
  const auto segment = [&](std::int64_t cols) {
    return Segment{
        program,
        {{"residual", placed(256, cols, DType::BF16, false, 64)}, {"out", placed(256, cols, DType::BF16, false, 64)}}};
  };
  const std::vector<Segment> segments{segment(0), segment(64)};
  const Problem problem = coda::bind("gemm", placed(256, 64), concat({placed(64, 0), placed(64, 64)}), segments);
  ASSERT_EQ(cuda::specialise(problem).segments[0].access[0], cuda::Access::Staged);
  const FakeLaunch launch = launched(problem, &kPlain);
  EXPECT_EQ(fake_gpu().maps.size(), 4u);
  EXPECT_EQ(map_at(launch, layout_of(problem).outputs, 1).data, problem.segments[1].operands[1].data());
}

TEST_F(LaunchMaps, OfAnAccumulatingTile) {
  for (const DType dtype : {DType::BF16, DType::F32}) {
    Builder b("sum");
    b.store("out", b.acc(), {.dtype = dtype, .accumulate = true});
    const Problem problem = linear(256, 256, 64, b.build());
    const FakeLaunch launch = launched(problem, &kPlain);
    const cuda::ParamsLayout at = layout_of(problem);
    const void* out = problem.segments[0].operands[0].data();
    EXPECT_EQ(map_at(launch, at.outputs).data, out);
    // The copy engine adds fp32; what has 16 bits is read first.
    EXPECT_EQ(at.arguments[0] - at.inputs, 128u);
    if (dtype == DType::BF16)
      EXPECT_EQ(map_at(launch, at.inputs).data, out);
    else
      EXPECT_EQ(fake_gpu().maps.size(), 7u) << "four with bf16, three with fp32";
  }
}

TEST_F(LaunchMaps, HaveWhatTheCopyEngineAsksFor) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t end) { return static_cast<std::int64_t>(random() % end); };
  for (int i = 0; i < 300; ++i) {
    const std::int64_t m = 1 + below(300), n = 1 + below(300), k = 1 + below(300);
    const auto matrix = [&](std::int64_t rows, std::int64_t cols) {
      const bool transposed = below(2) == 0;
      return placed(rows, cols, DType::BF16, transposed, (transposed ? rows : cols) + below(3) * below(9),
                    below(3) * below(9));
    };
    const Segment segment{epilogues::residual(), {{"residual", matrix(m, n)}, {"out", matrix(m, n)}}};
    const Problem problem = coda::bind("gemm", matrix(m, k), matrix(k, n), {&segment, 1});
    launched(problem);
  }
  for (const FakeMap& map : fake_gpu().maps) {
    const std::uint64_t bytes = map.type == kF32 ? 4 : 2;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(map.data) % 16, 0u);
    ASSERT_EQ(map.pitch % 16, 0u);
    ASSERT_GE(map.pitch, map.inner * bytes);
    ASSERT_TRUE(map.inner >= 1 && map.outer >= 1);
    ASSERT_TRUE(map.box_inner >= 1 && map.box_inner <= 256 && map.box_outer >= 1 && map.box_outer <= 256);
    const std::uint64_t row = map.box_inner * bytes;
    ASSERT_EQ(row, map.swizzle == kSwizzle128 ? 128u : map.swizzle == kSwizzle64 ? 64u : 32u);
  }
}

}  // namespace
}  // namespace coda::testing_support
