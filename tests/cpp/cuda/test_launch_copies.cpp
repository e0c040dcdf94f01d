// Operands the copy engine cannot read: copied first, into the caller's workspace or memory of the stream's pool.
#include <gmock/gmock.h>

#include "cuda/launch_support.h"

namespace coda::testing_support {
namespace {

using testing::ElementsAre;

constexpr Schedule kPlain{.tile_m = 128, .tile_n = 128, .stages = 4};

// What the kernel of device/copy.cuh is given.
struct Copy {
  const void* from;
  void* to;
  std::int64_t inner_stride, outer_stride, pitch;
  std::int32_t inner, outer;
};

Copy copy_of(const FakeLaunch& launch) {
  Copy copy{};
  EXPECT_EQ(launch.parameters.size(), sizeof copy);
  std::memcpy(&copy, launch.parameters.data(), std::min(sizeof copy, launch.parameters.size()));
  return copy;
}

bool is_copy(const FakeLaunch& launch) { return launch.kernel->text.find("copy_tile") != std::string::npos; }

class LaunchCopies : public LaunchTest {
 protected:
  // A's rows are 100 elements long, and B begins 2 bytes past an aligned address.
  static Problem unaligned(std::int64_t m = 300) {
    return fake_problem(placed(m, 100), placed(100, 200, DType::BF16, true, 104, 1));
  }

  char* const workspace_ = reinterpret_cast<char*>(std::intptr_t{0x7f0000000100});
};

TEST_F(LaunchCopies, AreLaunchedBeforeTheKernel) {
  const Problem problem = unaligned();
  const auto made = plan(problem, &kPlain);
  const std::size_t a_bytes = 300 * 104 * 2 + 64, b_bytes = 200 * 104 * 2 + 128;  // whole multiples of 256
  EXPECT_EQ(made->workspace_bytes(problem), a_bytes + b_bytes);
  made->run(problem, {fake_stream(), workspace_, a_bytes + b_bytes});
  ASSERT_EQ(fake_gpu().launches.size(), 3u);
  const Copy a = copy_of(fake_gpu().launches[0]), b = copy_of(fake_gpu().launches[1]);
  EXPECT_EQ(a.from, problem.a.parts[0].data());
  EXPECT_EQ(a.to, workspace_);
  EXPECT_EQ((std::vector{a.inner_stride, a.outer_stride, a.pitch}), (std::vector<std::int64_t>{1, 100, 104}));
  EXPECT_EQ((std::vector{a.inner, a.outer}), (std::vector{100, 300}));
  EXPECT_EQ(b.from, problem.b.parts[0].data());
  EXPECT_EQ(b.to, workspace_ + a_bytes);
  EXPECT_EQ((std::vector{b.inner_stride, b.outer_stride, b.pitch}), (std::vector<std::int64_t>{1, 104, 104}));
  for (const FakeLaunch& launch : fake_gpu().launches) EXPECT_EQ(launch.stream, fake_stream());
  EXPECT_EQ(fake_gpu().launches[0].grid, 2u * 5u) << "blocks of 64 × 64";
  EXPECT_EQ(fake_gpu().launches[0].block, 256u);
  const FakeLaunch& kernel = fake_gpu().launches[2];
  const FakeMap map = map_at(kernel, layout_of(problem).a);
  EXPECT_EQ(map.data, workspace_) << "the kernel reads the copy";
  EXPECT_EQ(map.pitch, 208u);
  EXPECT_EQ(map_at(kernel, layout_of(problem).b).data, workspace_ + a_bytes);
  EXPECT_TRUE(fake_gpu().allocations.empty());
}

TEST_F(LaunchCopies, TakeMemoryOfTheStreamsPoolWithoutAWorkspace) {
  const Problem problem = unaligned();
  const auto made = plan(problem, &kPlain);
  for (const int number : {1, 2}) made->run(problem, {.stream = fake_stream(number)});
  ASSERT_EQ(fake_gpu().allocations.size(), 2u);
  for (const std::size_t i : {0u, 1u}) {
    const FakeAllocation& memory = fake_gpu().allocations[i];
    EXPECT_EQ(memory.bytes, made->workspace_bytes(problem));
    EXPECT_EQ(memory.stream, fake_stream(static_cast<int>(i) + 1));
    EXPECT_TRUE(memory.freed) << "on the same stream";
    EXPECT_EQ(copy_of(fake_gpu().launches[3 * i]).to, reinterpret_cast<void*>(memory.pointer));
  }
}

TEST_F(LaunchCopies, AreFreedWhenALaunchFails) {
  const Problem problem = unaligned();
  const auto made = plan(problem, &kPlain);
  for (const std::string call : {"launch", "encode_tiled"}) {
    fake_gpu().fails = {{call, 700}};
    EXPECT_THROW(made->run(problem, {.stream = fake_stream()}), DeviceError) << call;
    ASSERT_FALSE(fake_gpu().allocations.empty());
    EXPECT_TRUE(fake_gpu().allocations.back().freed) << call;
  }
}

TEST_F(LaunchCopies, AreWarnedOfOnce) {
  plan(unaligned(), &kPlain);
  plan(unaligned(100), &kPlain);
  EXPECT_THAT(
      warnings_.messages(),
      ElementsAre(
          "gemm: A of shape [300, 100] has strides [100, 1] and begins 0 bytes past a multiple of 16; the copy "
          "engine takes one stride of 1, the other a multiple of 8 and no smaller than the extent, and 0 bytes: "
          "it is copied first, which is slower"));
}

TEST_F(LaunchCopies, AreNotWarnedOfWhereThereAreNone) {
  plan(linear(300, 200, 104), &kPlain);
  EXPECT_TRUE(warnings_.messages().empty());
  EXPECT_EQ(compilations(), 1) << "the copy is compiled where it is needed";
}

TEST_F(LaunchCopies, OfAnyStrides) {
  struct Case {
    std::int64_t row, col;
    bool copied;
  };
  // A is 64 × 128.
  for (const Case& c :
       {Case{128, 1, false}, Case{1, 64, false}, Case{128, 2, true}, Case{0, 1, true}, Case{-128, 1, true},
        Case{1, 0, true}, Case{130, 1, true}, Case{1, 65, true}, Case{0, 0, true}}) {
    fake_gpu().launches.clear();
    const std::int64_t shape[] = {64, 128}, strides[] = {c.row, c.col};
    const TensorView a(placed(1, 1).data(), DType::BF16, shape, strides, {DeviceKind::Cuda, 0});
    const Problem problem = fake_problem(a, placed(128, 64));
    plan(problem, &kPlain)->run(problem, {.stream = fake_stream()});
    SCOPED_TRACE(std::to_string(c.row) + ", " + std::to_string(c.col));
    ASSERT_EQ(fake_gpu().launches.size(), c.copied ? 2u : 1u);
    if (!c.copied) continue;
    const Copy copy = copy_of(fake_gpu().launches[0]);
    EXPECT_EQ(copy.inner_stride, c.col);
    EXPECT_EQ(copy.outer_stride, c.row);
    EXPECT_EQ(copy.pitch, 128);
  }
}

TEST_F(LaunchCopies, OfSomeParts) {
  // K-major parts, the second of which begins in the middle of 16 bytes.
  const Factor b = concat({placed(64, 128, DType::BF16, true), placed(64, 72, DType::BF16, true, 72, 4)});
  const Problem problem = fake_problem(placed(128, 64), b);
  const auto made = plan(problem, &kPlain);
  EXPECT_EQ(made->workspace_bytes(problem), 72u * 64 * 2);
  made->run(problem, {fake_stream(), workspace_, 72 * 64 * 2});
  ASSERT_EQ(fake_gpu().launches.size(), 2u);
  EXPECT_TRUE(is_copy(fake_gpu().launches[0]));
  const cuda::ParamsLayout at = layout_of(problem);
  EXPECT_EQ(map_at(fake_gpu().launches[1], at.b, 0).data, b.parts[0].data());
  EXPECT_EQ(map_at(fake_gpu().launches[1], at.b, 1).data, workspace_);
}

TEST_F(LaunchCopies, OfAMatrixThatLiesInTheOtherOrder) {
  // Planned with copies to K-major, so that an A that is M-major at run time is copied, too.
  const auto made = plan(unaligned(), &kPlain);
  const Problem problem = fake_problem(placed(304, 104, DType::BF16, true), placed(104, 200, DType::BF16, true));
  made->run(problem, {fake_stream(), workspace_, 1 << 20});
  ASSERT_EQ(fake_gpu().launches.size(), 2u);
  const Copy copy = copy_of(fake_gpu().launches[0]);
  EXPECT_EQ((std::vector{copy.inner_stride, copy.outer_stride, copy.pitch}), (std::vector<std::int64_t>{304, 1, 104}));
}

TEST_F(LaunchCopies, NeedNoneOfAnEmptyMatrix) {
  const Problem problem = fake_problem(placed(64, 0), placed(0, 64));
  const auto made = plan(problem, &kPlain);
  EXPECT_EQ(made->workspace_bytes(problem), 0u);
  made->run(problem, {.stream = fake_stream()});
  EXPECT_EQ(fake_gpu().launches.size(), 1u);
}

TEST_F(LaunchCopies, AndAWorkspaceMayBeCaptured) {
  const Problem problem = unaligned();
  const auto made = plan(problem, &kPlain);
  fake_gpu().calls.clear();
  fake_gpu().capturing = {fake_stream()};
  made->run(problem, {fake_stream(), workspace_, made->workspace_bytes(problem)});
  EXPECT_EQ(fake_gpu().calls,
            (std::map<std::string, int>{{"context_push", 1}, {"context_pop", 1}, {"encode_tiled", 3}, {"launch", 3}}));
}

}  // namespace
}  // namespace coda::testing_support
