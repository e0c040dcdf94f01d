// What the tests of launches share: GPUs that only pretend, problems on them, and what a launch's parameter holds.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "coda/build.h"
#include "coda/epilogues.h"
#include "core/log.h"
#include "cuda/backend.h"
#include "cuda/cache_support.h"
#include "cuda/emit/kernel.h"
#include "cuda/fake_gpu.h"
#include "cuda/launch/layout.h"
#include "schedule/records.h"
#include "support/invented.h"

namespace coda::testing_support {

inline cuda::Stream fake_stream(int number = 0) { return reinterpret_cast<cuda::Stream>(0x5000 + number); }

/// The matrix at `offset` elements from an aligned address of its own, its rows (columns, when transposed) `pitch`
/// apart; 0: as long as they are.
inline TensorView placed(std::int64_t rows, std::int64_t cols, DType dtype = DType::BF16, bool transposed = false,
                         std::int64_t pitch = 0, std::int64_t offset = 0, int device = 0) {
  const std::int64_t shape[] = {rows, cols};
  const std::int64_t apart = pitch > 0 ? pitch : transposed ? rows : cols;
  const std::int64_t strides[] = {transposed ? 1 : apart, transposed ? apart : 1};
  char* base = static_cast<char*>(invented({1}, dtype).data());
  return {base + offset * static_cast<std::int64_t>(size_of(dtype)), dtype, shape, strides, {DeviceKind::Cuda, device}};
}

/// The problem with every operand of each segment invented; one program for all.
inline Problem fake_problem(const Factor& a, const Factor& b, const Program& program = epilogues::identity()) {
  std::vector<Segment> segments;
  const bool along_m = a.view == Factor::View::Concat, along_n = b.view == Factor::View::Concat;
  for (std::size_t i = 0; i < (along_m ? a.parts.size() : along_n ? b.parts.size() : 1); ++i) {
    Operands operands = invented_operands(program, a.parts[along_m ? i : 0].shape(0), b.parts[along_n ? i : 0].shape(1),
                                          a.parts[0].dtype());
    for (NamedTensor& operand : operands)
      operand.tensor = TensorView(operand.tensor.data(), operand.tensor.dtype(), operand.tensor.shape(),
                                  operand.tensor.strides(), a.parts[0].device());
    segments.push_back({program, operands});
  }
  return coda::bind("gemm", a, b, segments);
}

/// M × N × K as a linear layer has it: A and the weight K-major.
inline Problem linear(std::int64_t m, std::int64_t n, std::int64_t k, const Program& program = epilogues::identity(),
                      int device = 0) {
  return fake_problem(placed(m, k, DType::BF16, false, 0, 0, device), placed(k, n, DType::BF16, true, 0, 0, device),
                      program);
}

template <class T>
T value_at(const FakeLaunch& launch, std::size_t offset) {
  T value{};
  EXPECT_LE(offset + sizeof value, launch.parameters.size());
  std::memcpy(&value, launch.parameters.data() + offset, sizeof value);
  return value;
}

/// A fake driver, and a cache of kernels and schedules that is this test's own.
class LaunchTest : public testing::Test {
 protected:
  LaunchTest() : records_("", "off") {
    fake_gpu() = {};
    fake_contexts().clear();
    api_ = fake_driver();
    driver_ = std::make_unique<cuda::DriverForTesting>(&api_);
    cuda::set_process_cache_for_testing(
        std::make_unique<cuda::KernelCache>(settings_of("", cuda::CacheMode::Off), compiler_.compiler()));
  }
  ~LaunchTest() override {
    EXPECT_EQ(fake_gpu().calls["context_push"], fake_gpu().calls["context_pop"]);
    EXPECT_TRUE(fake_contexts().empty());
    for (const FakeAllocation& memory : fake_gpu().allocations) EXPECT_TRUE(memory.freed);
    cuda::set_process_cache_for_testing(nullptr);
  }

  static std::unique_ptr<Plan> plan(const Problem& problem, const Schedule* schedule = nullptr,
                                    void* stream = fake_stream()) {
    const auto refusal = cuda::cuda_backend().refuses(problem);
    EXPECT_FALSE(refusal) << *refusal;
    return cuda::cuda_backend().plan(problem, {.schedule = schedule, .stream = stream});
  }

  /// Plans and runs; the launch of the kernel itself, which is the last.
  static FakeLaunch launched(const Problem& problem, const Schedule* schedule = nullptr) {
    plan(problem, schedule)->run(problem, {.stream = fake_stream()});
    if (fake_gpu().launches.empty()) {
      ADD_FAILURE() << "nothing was launched";
      return {};
    }
    return fake_gpu().launches.back();
  }

  static cuda::ParamsLayout layout_of(const Problem& problem) { return cuda::params_layout(cuda::specialise(problem)); }

  /// The tensor map number `index` of those at `offset` of a launch's parameter.
  static FakeMap map_at(const FakeLaunch& launch, std::size_t offset, std::size_t index = 0) {
    const std::size_t at = offset + index * cuda::kMapBytes;
    const int number = at + 8 <= launch.parameters.size() ? fake_map_number(launch.parameters.data() + at) : -1;
    if (number >= 0 && number < static_cast<int>(fake_gpu().maps.size()))
      return fake_gpu().maps[static_cast<std::size_t>(number)];
    ADD_FAILURE() << "no map at " << at;
    return {};
  }

  int compilations() const { return *compiler_.count; }

  CapturedWarnings warnings_;
  FakeCompiler compiler_;
  RecordsForTesting records_;
  cuda::DriverApi api_;
  std::unique_ptr<cuda::DriverForTesting> driver_;
};

}  // namespace coda::testing_support
