// Launches of attention, its backward and of rows of a table: which kernel, how many blocks, and what their parameters
// hold.
#include "cuda/emit/blocks.h"
#include "cuda/launch/blocks.h"
#include "cuda/launch_support.h"

namespace coda::testing_support {
namespace {

using LaunchBlocks = LaunchTest;

FakeLaunch attend(const TensorView& q, const TensorView& k, const TensorView& v, std::int64_t heads,
                  std::int64_t kv_heads) {
  const TensorView out = placed(q.shape(0), q.shape(1), q.dtype());
  cuda::launch_attention("causal_attention", {q, k, v, out, heads, kv_heads, 0.5}, fake_stream());
  return fake_gpu().launches.empty() ? FakeLaunch{} : fake_gpu().launches.back();
}

TEST_F(LaunchBlocks, AttentionTakesEightQueriesABlock) {
  const TensorView q = placed(21, 6 * 64), k = placed(30, 2 * 64), v = placed(30, 2 * 64, DType::BF16, false, 136);
  const FakeLaunch launch = attend(q, k, v, 6, 2);
  ASSERT_EQ(launch.parameters.size(), cuda::kAttentionParamsBytes);
  EXPECT_EQ(launch.kernel->text, cuda::emit_attention({DType::BF16, 64, 8, true}));
  EXPECT_EQ(launch.grid, 3u * 6u);
  EXPECT_EQ(launch.block, 128u);
  EXPECT_EQ(launch.stream, fake_stream());
  EXPECT_EQ(value_at<void*>(launch, 0), q.data());
  EXPECT_EQ(value_at<std::int64_t>(launch, 24 + 8), 128) << "row stride of k";
  EXPECT_EQ(value_at<std::int64_t>(launch, 48 + 8), 136) << "row stride of v";
  EXPECT_EQ(value_at<void*>(launch, 96), nullptr) << "no log-sum-exp is wanted";
  EXPECT_EQ(value_at<std::int32_t>(launch, 120), 21);
  EXPECT_EQ(value_at<std::int32_t>(launch, 124), 30);
  EXPECT_EQ(value_at<std::int32_t>(launch, 128), 6);
  EXPECT_EQ(value_at<std::int32_t>(launch, 132), 3) << "query heads of a key head";
  EXPECT_FLOAT_EQ(value_at<float>(launch, 136), 0.5f * 1.442695f);
}

// Three kernels: for pairs of a query and a head, for queries, for keys.
TEST_F(LaunchBlocks, AttentionsBackward) {
  const TensorView q = placed(21, 6 * 64), k = placed(21, 2 * 64), v = placed(21, 2 * 64, DType::BF16, false, 132);
  const TensorView sums = placed(21, 6, DType::F32), lse = placed(21, 6, DType::F32);
  cuda::launch_attention_backward("causal_attention_backward", {{q, k, v, q, 6, 2, 0.5, lse}, q, q, k, k, sums},
                                  fake_stream());
  const std::vector<FakeLaunch>& launches = fake_gpu().launches;
  ASSERT_EQ(launches.size(), 3u);
  using enum cuda::AttentionPass;
  EXPECT_EQ(launches[0].kernel->text, cuda::emit_attention_backward(Means, {DType::BF16, 64, 8, true}));
  EXPECT_EQ(launches[1].kernel->text, cuda::emit_attention_backward(ByQueries, {DType::BF16, 64, 8, false}));
  EXPECT_EQ(launches[2].kernel->text, cuda::emit_attention_backward(ByKeys, {DType::BF16, 64, 8, true}));
  EXPECT_EQ(launches[0].grid, (21u * 6u + 3u) / 4u);
  EXPECT_EQ(launches[1].grid, 3u * 6u);
  EXPECT_EQ(launches[2].grid, 3u * 2u);
  for (const FakeLaunch& launch : launches) {
    ASSERT_EQ(launch.parameters.size(), cuda::kAttentionBackwardParamsBytes);
    EXPECT_EQ(launch.block, 128u);
    EXPECT_EQ(value_at<void*>(launch, 5 * 24), lse.data());
    EXPECT_EQ(value_at<void*>(launch, 6 * 24), sums.data());
    EXPECT_EQ(value_at<std::int32_t>(launch, 240), 21);
    EXPECT_EQ(value_at<std::int32_t>(launch, 244), 6);
    EXPECT_EQ(value_at<std::int32_t>(launch, 248), 3);
    EXPECT_FLOAT_EQ(value_at<float>(launch, 252), 0.5f);
  }
}

TEST_F(LaunchBlocks, OneQueryHasAKernelOfItsOwn) {
  const FakeLaunch launch = attend(placed(1, 128), placed(500, 128), placed(500, 128), 2, 2);
  EXPECT_EQ(launch.kernel->text, cuda::emit_attention({DType::BF16, 64, 1, true}));
  EXPECT_EQ(launch.grid, 2u);
}

TEST_F(LaunchBlocks, KeysThatLieInNoPiecesAreReadOneByOne) {
  const TensorView q = placed(9, 64), whole = placed(9, 64);
  const auto strided = cuda::emit_attention({DType::BF16, 64, 8, false});
  for (const TensorView& odd : {placed(9, 64, DType::BF16, false, 68), placed(9, 64, DType::BF16, false, 0, 1),
                                placed(9, 64, DType::BF16, true)}) {
    EXPECT_EQ(attend(q, odd, whole, 1, 1).kernel->text, strided);
    EXPECT_EQ(attend(q, whole, odd, 1, 1).kernel->text, strided);
  }
}

TEST_F(LaunchBlocks, NoTokensLaunchNothing) {
  attend(placed(0, 64), placed(9, 64), placed(9, 64), 1, 1);
  cuda::launch_gather("logits", placed(9, 64), placed(1, 1), placed(0, 64), fake_stream());
  const TensorView none = placed(0, 64), no_numbers = invented({0}, DType::I64);
  cuda::launch_attention_backward("causal_attention_backward",
                                  {{none, none, none, none, 1, 1, 1}, none, none, none, none, none}, fake_stream());
  cuda::launch_add_rows("loss_and_gradients", {none, none, no_numbers, no_numbers, no_numbers}, fake_stream());
  EXPECT_TRUE(fake_gpu().launches.empty());
}

TEST_F(LaunchBlocks, GatherTakesARowABlock) {
  const TensorView table = placed(53, 100), numbers = invented({7}, DType::I64), out = placed(7, 100);
  cuda::launch_gather("logits", table, numbers, out, fake_stream());
  ASSERT_EQ(fake_gpu().launches.size(), 1u);
  const FakeLaunch& launch = fake_gpu().launches[0];
  EXPECT_EQ(launch.kernel->text, cuda::emit_gather(DType::BF16));
  EXPECT_EQ(launch.grid, 7u);
  EXPECT_EQ(launch.block, 256u);
  EXPECT_EQ(value_at<void*>(launch, 0), table.data());
  EXPECT_EQ(value_at<void*>(launch, 24), out.data());
  EXPECT_EQ(value_at<void*>(launch, 48), numbers.data());
  EXPECT_EQ(value_at<std::int32_t>(launch, 56), 7);
  EXPECT_EQ(value_at<std::int32_t>(launch, 60), 100);
}

TEST_F(LaunchBlocks, AddedRowsTakeAGroupAndSomeColumnsABlock) {
  const auto numbers = [](std::int64_t count) { return invented({count}, DType::I64); };
  const TensorView from = placed(7, 300), into = placed(53, 300, DType::F32);
  const cuda::AddRows rows{from, into, numbers(7), numbers(6), numbers(5)};
  cuda::launch_add_rows("loss_and_gradients", rows, fake_stream());
  ASSERT_EQ(fake_gpu().launches.size(), 1u);
  const FakeLaunch& launch = fake_gpu().launches[0];
  EXPECT_EQ(launch.kernel->text, cuda::emit_add_rows(DType::BF16, DType::F32));
  EXPECT_EQ(launch.grid, 5u * 2u);
  EXPECT_EQ(value_at<void*>(launch, 24), into.data());
  EXPECT_EQ(value_at<std::int32_t>(launch, 72), 5);
  EXPECT_EQ(value_at<std::int32_t>(launch, 76), 300);
}

}  // namespace
}  // namespace coda::testing_support
