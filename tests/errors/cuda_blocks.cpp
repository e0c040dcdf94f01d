// Every mistake and failure that src/cuda/launch/memory.cpp and src/cuda/launch/blocks.cpp tell of, and its text.
#include "core/check.h"
#include "cuda/fake_memory.h"
#include "cuda/launch/blocks.h"
#include "cuda/launch/memory.h"
#include "cuda/launch_support.h"
#include "support/error_row.h"

namespace coda {
namespace {

using namespace testing_support;

constexpr Device kGpu{DeviceKind::Cuda, 0};
constexpr const char* kFake =
    ": CUDA_ERROR_FAKE (1), it only pretends: an earlier kernel may have failed; compute-sanitizer finds which";

class CudaBlockErrors : public LaunchTest {
 protected:
  CudaBlockErrors() {
    fake_memory(api_);
    driver_.reset();
    driver_ = std::make_unique<cuda::DriverForTesting>(&api_);
    provide_device_memory(DeviceKind::Cuda, cuda::gpu_memory());
  }
};

// What `mistake` does while a call of the driver fails.
std::function<void()> failing(const std::string& name, cuda::Result result, std::function<void()> mistake) {
  return [=] {
    fake_gpu().fails = {{name, result}};
    mistake();
  };
}

TEST_F(CudaBlockErrors, OfMemory) {
  const Tensor host = Tensor::zeros({4}, DType::F32);
  const Tensor there = Tensor::empty({4}, DType::F32, kGpu);
  expect_errors({
      {typeid(OutOfMemoryError),
       "tensor: out of GPU memory: could not allocate 16 bytes on cuda:0 (5 MiB of 144384 MiB are free): free some or "
       "use smaller tensors",
       failing("alloc_from_pool", cuda::kOutOfMemory, [] { Tensor::empty({4}, DType::F32, kGpu); })},
      {typeid(ValueError),
       "cuda: got device cuda:3, expected cuda:0 to cuda:0: choose one of them, or let CUDA_VISIBLE_DEVICES show it",
       failing("", 0, [] { Tensor::empty({4}, DType::F32, Device{DeviceKind::Cuda, 3}); })},
      {typeid(DeviceError), concat("copy_elements: could not copy 16 bytes from cpu to cuda:0", kFake),
       failing("copy_to_device_async", 1, [&] { copy_elements(host, there); })},
      {typeid(DeviceError), concat("copy_elements: could not copy 16 bytes from cuda:0 to cpu", kFake),
       failing("stream_synchronize", 1, [&] { copy_elements(there, host); })},
      {typeid(DeviceError), concat("model: could not wait for cuda:0", kFake),
       failing("context_synchronize", 1, [] { device_memory("model", kGpu).wait("model", kGpu); })},
  });
  fake_gpu().fails.clear();
}

TEST_F(CudaBlockErrors, OfAttentionsBackward) {
  const auto backward = [](std::int64_t columns) {
    return [=] {
      const TensorView x = invented({9, columns}, DType::BF16), sums = invented({9, 1}, DType::F32);
      cuda::launch_attention_backward("causal_attention_backward", {{x, x, x, x, 1, 1, 1.0, sums}, x, x, x, x, sums},
                                      fake_stream());
    };
  };
  expect_errors({
      {typeid(NotImplementedError),
       "causal_attention_backward: heads have 20 columns, expected a multiple of 8 up to 256 on a GPU: copy q, k and v "
       "to the CPU",
       backward(20)},
      {typeid(DeviceError),
       concat("causal_attention_backward: could not launch kernel attention_means_64 on cuda:0 with 3 blocks of 128 "
              "threads",
              kFake),
       failing("launch", 1, backward(64))},
  });
}

TEST_F(CudaBlockErrors, OfAddedRows) {
  constexpr std::int64_t kMany = std::int64_t{1} << 31;
  const TensorView numbers = invented({kMany}, DType::I64), rows = invented({1, 8}, DType::BF16);
  expect_errors(
      {{typeid(NotImplementedError),
        "loss_and_gradients: got 2147483648 rows of width 8, expected at most 2147483647 blocks of 256 "
        "columns on a GPU",
        [&] { cuda::launch_add_rows("loss_and_gradients", {rows, rows, numbers, numbers, numbers}, nullptr); }}});
}

TEST_F(CudaBlockErrors, OfAttention) {
  const auto attend = [](std::int64_t tokens, std::int64_t columns) {
    return [=] {
      const TensorView x = invented({tokens, columns}, DType::BF16);
      cuda::launch_attention("causal_attention", {x, x, x, x, 1, 1, 1.0}, fake_stream());
    };
  };
  expect_errors({
      {typeid(NotImplementedError),
       "causal_attention: heads have 20 columns, expected a multiple of 8 up to 256 on a GPU: copy q, k and v to the "
       "CPU",
       attend(9, 20)},
      {typeid(NotImplementedError),
       "causal_attention: heads have 264 columns, expected a multiple of 8 up to 256 on a GPU: copy q, k and v to the "
       "CPU",
       attend(9, 264)},
      {typeid(NotImplementedError),
       "causal_attention: got 2147483648 queries of 1 heads and 2147483648 keys, expected at most 2147483647 on a GPU",
       attend(std::int64_t{1} << 31, 8)},
      {typeid(DeviceError),
       concat("causal_attention: could not launch kernel attention_64x8 on cuda:0 with 2 blocks of 128 threads", kFake),
       failing("launch", 1, attend(9, 64))},
  });
  fake_gpu() = {.count = 2, .name = "NVIDIA A100", .major = 8};
  const TensorView x = invented({9, 64}, DType::BF16, Device{DeviceKind::Cuda, 1});
  expect_errors(
      {{typeid(NotImplementedError),
        "causal_attention: cuda:1 is a NVIDIA A100 of compute capability 8.0, expected 9.0 (H100, H200, GH200)",
        [&] { cuda::launch_attention("causal_attention", {x, x, x, x, 1, 1, 1.0}, nullptr); }}});
}

}  // namespace
}  // namespace coda
