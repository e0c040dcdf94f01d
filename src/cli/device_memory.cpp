#include "cli/device_memory.h"

#include <algorithm>
#include <random>

#include "core/check.h"

namespace coda::cli {
namespace {

// Elements made on the host; tensors repeat them. A prime, so that no two rows of a matrix are the same.
constexpr std::int64_t kPiece = 1048573;

}  // namespace

DeviceMemory::~DeviceMemory() {
  try {
    const cuda::CurrentGpu current(gpu_);
    for (const cuda::DevicePointer tensor : tensors_) cuda::driver().free(tensor);
  } catch (const Error&) {
    // The GPU failed, which whoever used it was told; its memory goes with the process.
  }
}

void* DeviceMemory::tensor(DType dtype, std::int64_t elements) {
  const cuda::CurrentGpu current(gpu_);
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  cuda::DevicePointer memory = 0;
  cuda::check(cuda::driver().alloc(&memory, bytes), "tune", concat("allocate ", bytes, " bytes for a tensor"));
  tensors_.push_back(memory);
  const std::vector<char>& random = piece(dtype);
  for (std::size_t at = 0; at < bytes; at += random.size())
    cuda::check(cuda::driver().copy_to_device(memory + at, random.data(), std::min(random.size(), bytes - at)), "tune",
                "fill a tensor");
  return reinterpret_cast<void*>(memory);
}

const std::vector<char>& DeviceMemory::piece(DType dtype) {
  for (const auto& [known, numbers] : pieces_)
    if (known == dtype) return numbers;
  std::mt19937 random(20260519);
  std::normal_distribution<float> normal(0.0f, 0.25f);
  std::uniform_int_distribution<std::int64_t> column(0, columns_ - 1);
  std::vector<char> numbers(static_cast<std::size_t>(kPiece) * size_of(dtype));
  for (std::int64_t i = 0; i < kPiece; ++i)
    store_element(dtype, numbers.data(), i, is_integer(dtype) ? static_cast<double>(column(random)) : normal(random));
  return pieces_.emplace_back(dtype, std::move(numbers)).second;
}

}  // namespace coda::cli
