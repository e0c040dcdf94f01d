// What one run of a plan costs the host, in microseconds: bursts that the launch queue holds, of a kernel too small to
// fill it. Prints one line of JSON, which gpu_gemm.py takes into its results.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <vector>

#include "coda/epilogues.h"
#include "coda/error.h"
#include "coda/gemm.h"
#include "cuda/launch/gpu.h"

namespace coda {
namespace {

constexpr int kBurst = 200, kBursts = 50;

// Of the device's memory, which no plan reads or writes past.
TensorView device_matrix(std::int64_t rows, std::int64_t cols) {
  cuda::DevicePointer memory = 0;
  const auto bytes = static_cast<std::size_t>(rows * cols) * size_of(DType::BF16);
  cuda::check(cuda::driver().alloc(&memory, bytes), "plan_cost", "allocate a matrix");
  cuda::check(cuda::driver().fill_async(memory, 0x3f803f80, bytes / 4, nullptr), "plan_cost", "fill a matrix");  // ones
  return {reinterpret_cast<void*>(memory), DType::BF16, {rows, cols}, Device{DeviceKind::Cuda, 0}};
}

double median_microseconds(const Plan& plan, const Problem& problem) {
  std::vector<double> bursts;
  for (int burst = 0; burst < kBursts; ++burst) {
    cuda::check(cuda::driver().stream_synchronize(nullptr), "plan_cost", "wait");
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kBurst; ++i) plan.run(problem);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    bursts.push_back(took.count() / kBurst);
  }
  std::ranges::nth_element(bursts, bursts.begin() + kBursts / 2);
  return bursts[kBursts / 2];
}

int run_all() {
  const cuda::CurrentGpu current(cuda::gpu(0));
  const TensorView a = device_matrix(128, 64), weight = device_matrix(128, 64);
  const Program identity = epilogues::identity(), residual = epilogues::residual();
  const Segment plain{identity, {{"out", device_matrix(128, 128)}}};
  const Segment added{residual, {{"residual", device_matrix(128, 128)}, {"out", device_matrix(128, 128)}}};
  std::cout << "{";
  for (const Segment& segment : {plain, added}) {
    const Problem problem = bind("plan_cost", a, weight.transposed(), {&segment, 1});
    std::cout << (segment.operands.size() > 1 ? ", " : "") << "\"" << segment.program.name()
              << "\": " << median_microseconds(*plan(problem), problem);
  }
  std::cout << "}\n";
  return 0;
}

}  // namespace
}  // namespace coda

int main() {
  try {
    return coda::run_all();
  } catch (const coda::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
