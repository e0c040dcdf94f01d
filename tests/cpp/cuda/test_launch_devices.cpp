// Kernels and contexts of several GPUs, of several plans, and of several threads.
#include <atomic>
#include <thread>

#include "cuda/launch/gpu.h"
#include "cuda/launch_support.h"

namespace coda::testing_support {
namespace {

using LaunchDevices = LaunchTest;

constexpr Schedule kPlain{.tile_m = 128, .tile_n = 128, .stages = 4};

TEST_F(LaunchDevices, EachLoadTheirOwnKernel) {
  fake_gpu().count = 2;
  const Problem first = linear(256, 256, 64, epilogues::identity(), 0);
  const Problem second = linear(256, 256, 64, epilogues::identity(), 1);
  const auto on_first = plan(first, &kPlain), on_second = plan(second, &kPlain);
  on_second->run(second, {.stream = fake_stream(1)});
  on_first->run(first, {.stream = fake_stream(0)});
  EXPECT_EQ(compilations(), 1) << "for one architecture";
  EXPECT_EQ(fake_gpu().calls["module_load"], 2);
  EXPECT_EQ(fake_gpu().calls["context_retain"], 2);
  ASSERT_EQ(fake_gpu().launches.size(), 2u);
  for (const int device : {0, 1}) {
    const FakeLaunch& launch = fake_gpu().launches[static_cast<std::size_t>(1 - device)];
    EXPECT_EQ(launch.context, fake_context(device));
    EXPECT_EQ(launch.kernel->context, fake_context(device)) << "a kernel belongs to a context";
    EXPECT_EQ(launch.stream, fake_stream(device));
  }
}

TEST_F(LaunchDevices, LeaveTheCallersContextAsItWas) {
  fake_gpu().count = 2;
  fake_contexts().push_back(fake_context(0));
  const Problem problem = linear(256, 256, 64, epilogues::identity(), 1);
  const auto made = plan(problem, &kPlain);
  EXPECT_EQ(fake_contexts(), (std::vector{fake_context(0)}));
  made->run(problem, {.stream = fake_stream()});
  EXPECT_EQ(fake_contexts(), (std::vector{fake_context(0)}));
  fake_contexts().clear();
}

// Whatever call fails, the error comes out, the context is popped, and the next try succeeds.
TEST_F(LaunchDevices, PopTheirContextWhenACallFails) {
  const Problem problem = fake_problem(placed(64, 100), placed(100, 64));  // copied
  int program = 0;
  for (const std::string call : {"context_push", "module_load", "module_function", "function_set", "max_clusters"}) {
    Builder b("program_" + std::to_string(program++));  // none that is loaded
    b.store("out", b.acc());
    const Problem fresh = linear(64, 64, 64, b.build());
    fake_gpu().fails = {{call, 1}};
    EXPECT_THROW(plan(fresh, &kPlain), DeviceError) << call;
    fake_gpu().fails.clear();
    EXPECT_TRUE(fake_contexts().empty()) << call;
    EXPECT_NE(plan(fresh, &kPlain), nullptr) << call;
    fake_gpu().calls["context_push"] -= call == "context_push" ? 1 : 0;  // it failed: nothing to pop
  }
  const auto made = plan(problem, &kPlain);
  for (const std::string call : {"context_push", "alloc_async", "encode_tiled", "launch"}) {
    fake_gpu().fails = {{call, 1}};
    EXPECT_THROW(made->run(problem, {.stream = fake_stream()}), DeviceError) << call;
    fake_gpu().fails.clear();
    EXPECT_TRUE(fake_contexts().empty()) << call;
    made->run(problem, {.stream = fake_stream()});
    fake_gpu().calls["context_push"] -= call == "context_push" ? 1 : 0;
  }
}

TEST_F(LaunchDevices, LoadAKernelOfTwoPlansOnce) {
  const Problem problem = linear(256, 256, 64), larger = linear(4096, 512, 1024);
  plan(problem, &kPlain)->run(problem, {.stream = fake_stream()});
  plan(larger, &kPlain)->run(larger, {.stream = fake_stream()});
  EXPECT_EQ(compilations(), 1) << "extents are arguments";
  EXPECT_EQ(fake_gpu().calls["module_load"], 1);
  EXPECT_EQ(fake_gpu().launches[0].kernel, fake_gpu().launches[1].kernel);
  const Schedule other{.tile_m = 128, .tile_n = 128, .stages = 5};
  plan(problem, &other);
  EXPECT_EQ(fake_gpu().calls["module_load"], 2);
}

TEST_F(LaunchDevices, LoadAKernelOfManyThreadsOnce) {
  const Problem problem = linear(256, 256, 64, epilogues::bias());
  compiler_.meanwhile = [] { std::this_thread::sleep_for(20ms); };
  cuda::set_process_cache_for_testing(
      std::make_unique<cuda::KernelCache>(settings_of("", cuda::CacheMode::Off), compiler_.compiler()));
  constexpr int kThreads = 8;
  std::atomic<int> waiting = kThreads;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      const auto made = cuda::cuda_backend().plan(problem, {.schedule = &kPlain, .stream = fake_stream(i)});
      for (int run = 0; run < 10; ++run) made->run(problem, {.stream = fake_stream(i)});
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compilations(), 1);
  EXPECT_EQ(fake_gpu().calls["module_load"], 1);
  EXPECT_EQ(fake_gpu().launches.size(), 80u);
  std::map<cuda::Stream, int> runs;
  for (const FakeLaunch& launch : fake_gpu().launches) {
    ++runs[launch.stream];
    EXPECT_EQ(launch.kernel, fake_gpu().launches[0].kernel);
    EXPECT_EQ(launch.context, fake_context(0));
  }
  EXPECT_EQ(runs.size(), 8u);
}

TEST_F(LaunchDevices, RunOnePlanFromManyThreads) {
  const Program program = epilogues::identity();
  const auto made = plan(linear(256, 256, 64, program), &kPlain);
  std::vector<Problem> problems;
  for (int i = 0; i < 8; ++i) problems.push_back(linear(100 * (i + 1), 256, 64, program));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int run = 0; run < 20; ++run) made->run(problems[static_cast<std::size_t>(i)], {.stream = fake_stream(i)});
    });
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(fake_gpu().launches.size(), 160u);
  const cuda::ParamsLayout at = layout_of(problems[0]);
  for (const FakeLaunch& launch : fake_gpu().launches) {
    const auto rows = value_at<std::int32_t>(launch, at.arguments[0]);
    const Problem& problem = problems.at(static_cast<std::size_t>(rows / 100 - 1));
    EXPECT_EQ(launch.stream, fake_stream(rows / 100 - 1)) << "threads mixed their parameters";
    EXPECT_EQ(map_at(launch, at.a).data, problem.a.parts[0].data());
    EXPECT_EQ(map_at(launch, at.outputs).data, problem.segments[0].operands[0].data());
  }
}

TEST_F(LaunchDevices, AreCountedAndOpenedOnce) {
  fake_gpu().count = 3;
  EXPECT_EQ(cuda::gpu_count(), 3);
  const cuda::Gpu& gpu = cuda::gpu(2);
  EXPECT_EQ(&cuda::gpu(2), &gpu);
  EXPECT_EQ(gpu.index, 2);
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_EQ(gpu.multiprocessors, 132);
  EXPECT_EQ(gpu.arch, find_arch(9, 0));
  EXPECT_EQ(gpu.context, fake_context(2));
  EXPECT_EQ(fake_gpu().calls["context_retain"], 1);
}

}  // namespace
}  // namespace coda::testing_support
