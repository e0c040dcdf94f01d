// The thread pool: every index once, from several user threads, nested, after errors and after a fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/thread_count.h"
#include "cpu/threads.h"

namespace coda::cpu {
namespace {

class FastThreads : public testing::Test {
 protected:
  FastThreads() { set_thread_count(4); }
  ~FastThreads() override { set_thread_count(0); }
};

// True when each index is called once and no two workers share a number at a time.
bool covers(std::int64_t count) {
  std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
  std::vector<std::atomic<int>> busy(static_cast<std::size_t>(parallel_width()));
  std::atomic<bool> alone = true;
  parallel_for(count, [&](int worker, std::int64_t i) {
    auto& mine = busy[static_cast<std::size_t>(worker)];
    if (mine.fetch_add(1) != 0) alone = false;
    ++calls[static_cast<std::size_t>(i)];
    mine.fetch_sub(1);
  });
  return alone && std::all_of(calls.begin(), calls.end(), [](const auto& c) { return c == 1; });
}

TEST_F(FastThreads, CallEachIndexOnce) {
  for (const std::int64_t count : {0, 1, 2, 3, 7, 64, 1000, 100000}) EXPECT_TRUE(covers(count)) << count;
}

TEST_F(FastThreads, ServeSeveralUserThreadsAtOnce) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> users;
  for (int u = 0; u < 3; ++u)
    users.emplace_back([&] {
      for (int round = 0; round < 300; ++round) wrong += covers(round % 50) ? 0 : 1;
    });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(FastThreads, RunNestedCallsInline) {
  std::atomic<int> calls = 0;
  std::atomic<bool> inline_only = true;
  parallel_for(8, [&](int, std::int64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(10, [&](int worker, std::int64_t) {
      ++calls;
      if (worker != 0 || std::this_thread::get_id() != outer) inline_only = false;
    });
  });
  EXPECT_EQ(calls, 80);
  EXPECT_TRUE(inline_only);
}

TEST_F(FastThreads, PassOnTheFirstError) {
  EXPECT_THROW(parallel_for(100,
                            [](int, std::int64_t i) {
                              if (i == 37) throw std::out_of_range("37");
                            }),
               std::out_of_range);
  EXPECT_TRUE(covers(100));
}

TEST_F(FastThreads, SurviveAFork) {
  ASSERT_TRUE(covers(100));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(covers(1000) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(covers(100));
}

}  // namespace
}  // namespace coda::cpu
