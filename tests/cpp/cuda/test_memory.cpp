// Tensors on a GPU: whose pool and stream their memory is of, when it goes, and how it is copied.
#include "cuda/fake_memory.h"
#include "cuda/launch/memory.h"
#include "cuda/launch_support.h"

namespace coda::testing_support {
namespace {

class Memory : public LaunchTest {
 protected:
  Memory() {
    fake_memory(api_);
    driver_.reset();
    driver_ = std::make_unique<cuda::DriverForTesting>(&api_);
    provide_device_memory(DeviceKind::Cuda, cuda::gpu_memory());
  }
};

constexpr Device kFirst{DeviceKind::Cuda, 0}, kSecond{DeviceKind::Cuda, 1};

TEST_F(Memory, ComesFromThePoolOfItsGpuInTheOrderOfAStream) {
  fake_gpu().count = 2;
  {
    const Tensor first = Tensor::empty({3, 5}, DType::BF16, kFirst, fake_stream(1));
    const Tensor second = Tensor::empty({7}, DType::F32, kSecond, fake_stream(2));
    EXPECT_EQ(first.view().device(), kFirst);
    EXPECT_TRUE(first.view().is_contiguous());
    const auto& made = fake_gpu().allocations;
    ASSERT_EQ(made.size(), 2u);
    EXPECT_EQ(made[0].bytes, 30u);
    EXPECT_EQ(made[0].stream, fake_stream(1));
    EXPECT_EQ(first.view().data(), reinterpret_cast<void*>(made[0].pointer));
    EXPECT_NE(made[0].pool, made[1].pool);
    EXPECT_FALSE(made[0].freed || made[1].freed);
  }
  for (const FakeAllocation& memory : fake_gpu().allocations) EXPECT_TRUE(memory.freed) << "on its own stream";
  EXPECT_EQ(fake_gpu().calls["pool_create"], 2);
  const Tensor again = Tensor::empty({1}, DType::F32, kFirst);
  EXPECT_EQ(fake_gpu().calls["pool_create"], 2) << "pools are kept";
}

TEST_F(Memory, GoesWithTheLastCopyOfATensor) {
  Tensor tensor = Tensor::empty({0}, DType::F32, kFirst);
  EXPECT_NE(tensor.view().data(), nullptr) << "an empty tensor has memory too";
  const Tensor other = tensor;
  tensor = {};
  EXPECT_FALSE(fake_gpu().allocations[0].freed);
}

TEST_F(Memory, CopiesOfTheHostAreWaitedFor) {
  const Tensor host = Tensor::zeros({2, 4}, DType::F32);
  const Tensor there = Tensor::copy_to(host, kFirst, fake_stream());
  const Tensor back = Tensor::copy_to(there, {}, fake_stream());
  const auto& copies = fake_traffic().copies;
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].kind, "to device");
  EXPECT_EQ(copies[0].to, fake_gpu().allocations[0].pointer);
  EXPECT_EQ(copies[1].kind, "to host");
  for (const FakeCopy& copy : copies) {
    EXPECT_EQ(copy.bytes, 32u);
    EXPECT_EQ(copy.stream, fake_stream());
  }
  EXPECT_EQ(fake_traffic().waited, (std::vector{fake_stream(), fake_stream()}));
  EXPECT_EQ(back.view().device(), Device{});
}

TEST_F(Memory, CopiesWithinAGpuAreQueued) {
  const Tensor tensor = Tensor::empty({6, 4}, DType::BF16, kFirst, fake_stream());
  copy_elements(tensor.view().slice(0, 0, 2), tensor.view().slice(0, 4, 6), fake_stream());
  const FakeCopy& copy = fake_traffic().copies.at(0);
  EXPECT_EQ(copy.kind, "within");
  EXPECT_EQ(copy.to - copy.from, 32u);
  EXPECT_EQ(copy.bytes, 16u);
  EXPECT_TRUE(fake_traffic().waited.empty());
  copy_elements(tensor.view().slice(0, 0, 0), tensor.view().slice(0, 1, 1));
  EXPECT_EQ(fake_traffic().copies.size(), 1u) << "nothing is no copy";
}

// What does not lie in one piece on the host passes through a copy that does.
TEST_F(Memory, StridedHostTensorsAreCopiedTwice) {
  const Tensor host = Tensor::zeros({4, 6}, DType::F32), there = Tensor::empty({6, 4}, DType::F32, kFirst);
  copy_elements(host.view().transposed(), there);
  copy_elements(there, host.view().transposed());
  for (const FakeCopy& copy : fake_traffic().copies) {
    EXPECT_EQ(copy.bytes, 96u);
    EXPECT_NE(copy.kind == "to device" ? copy.from : copy.to, reinterpret_cast<std::uint64_t>(host.view().data()));
  }
}

TEST_F(Memory, GoesQuietlyWhenTheGpuHasFailed) {
  {
    const Tensor tensor = Tensor::empty({4}, DType::F32, kFirst);
    fake_gpu().fails = {{"context_push", 1}};
  }
  --fake_gpu().calls["context_push"];      // it failed: nothing to pop
  fake_gpu().allocations[0].freed = true;  // with the context
}

}  // namespace
}  // namespace coda::testing_support
