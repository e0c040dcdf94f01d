// Plans of recent calls: kept for what a plan may depend on, and for nothing else.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "coda/build.h"
#include "coda/error.h"
#include "problem/plan_cache.h"

namespace coda {
namespace {

class NoPlan final : public Plan {
 public:
  void run(const Problem&, const Execution&) const override {}
};

Program scaled(double by) {
  Builder b("scaled");
  b.store("out", b.acc() * by);
  return b.build();
}

// A problem of M × N × 8 in `memory`.
Problem product(std::int64_t m, std::int64_t n, const Program& program, float* memory, DType dtype = DType::F32) {
  const Segment segment{program, {{"out", TensorView(memory + 4096, dtype, {m, n})}}};
  return coda::bind("test", TensorView(memory, dtype, {m, 8}), TensorView(memory + 2048, dtype, {8, n}), {&segment, 1});
}

class PlanCacheTest : public testing::Test {
 protected:
  static constexpr std::size_t kMost = 12;

  // True when the problem had to be planned.
  bool plans(const Problem& problem, std::string_view backend = "", std::uint64_t epoch = 0) {
    const int before = made_;
    const auto make = [this] {
      ++made_;
      return std::make_unique<NoPlan>();
    };
    EXPECT_NE(cache_.get(problem, backend, epoch, make), nullptr);
    return made_ > before;
  }

  PlanCache cache_{kMost};
  int made_ = 0;
  alignas(64) float memory_[8192] = {};
  const Program program_ = scaled(2);
};

TEST_F(PlanCacheTest, KeepsAPlanWhereverTheTensorsAre) {
  EXPECT_TRUE(plans(product(16, 32, program_, memory_)));
  EXPECT_FALSE(plans(product(16, 32, program_, memory_)));
  EXPECT_FALSE(plans(product(16, 32, program_, memory_ + 16)));
}

TEST_F(PlanCacheTest, TellsApartExtents) {
  EXPECT_TRUE(plans(product(16, 32, program_, memory_)));
  EXPECT_TRUE(plans(product(17, 32, program_, memory_))) << "M";
  EXPECT_TRUE(plans(product(16, 24, program_, memory_))) << "N";
}

TEST_F(PlanCacheTest, TellsApartTheSmallestDifference) {
  EXPECT_TRUE(plans(product(16, 32, program_, memory_)));
  EXPECT_TRUE(plans(product(16, 32, program_, memory_ + 1))) << "alignment";
  EXPECT_TRUE(plans(product(16, 32, scaled(2), memory_))) << "another program, though equal: its address is its name";
  EXPECT_TRUE(plans(product(16, 32, program_, memory_, DType::BF16))) << "dtype";
  EXPECT_TRUE(plans(product(16, 32, program_, memory_), "fast")) << "backend";
  EXPECT_TRUE(plans(product(16, 32, program_, memory_), "", 1)) << "epoch";
  Problem elsewhere = product(16, 32, program_, memory_);
  elsewhere.device = {DeviceKind::Cuda, 1};
  EXPECT_TRUE(plans(elsewhere)) << "device";
  Problem transposed = product(16, 16, program_, memory_);
  EXPECT_TRUE(plans(transposed));
  transposed.b.parts[0] = TensorView(memory_ + 2048, DType::F32, {16, 8}).transposed();
  EXPECT_TRUE(plans(transposed)) << "strides";
  EXPECT_FALSE(plans(product(16, 32, program_, memory_)));
}

TEST_F(PlanCacheTest, ForgetsThePlanUnusedForLongest) {
  for (std::int64_t m = 1; m <= std::int64_t{kMost}; ++m) EXPECT_TRUE(plans(product(m, 8, program_, memory_)));
  EXPECT_FALSE(plans(product(1, 8, program_, memory_)));
  EXPECT_TRUE(plans(product(kMost + 1, 8, program_, memory_)));
  EXPECT_FALSE(plans(product(1, 8, program_, memory_)));
  EXPECT_TRUE(plans(product(2, 8, program_, memory_)));
}

TEST_F(PlanCacheTest, KeepsNothingOfAPlanThatFails) {
  const Problem problem = product(16, 32, program_, memory_);
  EXPECT_THROW(cache_.get(problem, "", 0, []() -> std::unique_ptr<Plan> { throw DeviceError("no"); }), DeviceError);
  EXPECT_TRUE(plans(problem));
}

// The address of a program that is gone may be another's: an entry keeps its programs alive.
TEST_F(PlanCacheTest, NeverTakesANewProgramForAnOldOne) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(plans(product(16, 32, scaled(i), memory_)));
}

TEST_F(PlanCacheTest, ServesManyThreads) {
  std::vector<std::jthread> threads;
  std::atomic<int> made = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i)
        cache_.get(product(1 + (i + t) % 6, 8, program_, memory_), "", 0, [&] {
          ++made;
          return std::make_unique<NoPlan>();
        });
    });
  threads.clear();
  EXPECT_GE(made, 6);
}

}  // namespace
}  // namespace coda
