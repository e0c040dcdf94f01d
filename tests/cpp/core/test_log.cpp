// Warnings: once for each key, whole lines, from any thread.
#include <gmock/gmock.h>

#include <thread>

#include "core/log.h"

namespace coda {
namespace {

using testing::ElementsAre;

TEST(Log, WarnsOnceForEachKey) {
  testing::internal::CaptureStderr();
  warn_once("test_log one", "first");
  warn_once("test_log one", "second");
  warn_once("test_log two", "third");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "coda: warning: first\ncoda: warning: third\n");
}

TEST(Log, IsCapturedByTests) {
  testing::internal::CaptureStderr();
  warn_once("test_log three", "printed");
  {
    const CapturedWarnings warnings;
    warn_once("test_log three", "kept");
    warn_once("test_log three", "not kept");
    EXPECT_THAT(warnings.messages(), ElementsAre("kept"));
  }
  warn_once("test_log three", "not printed");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "coda: warning: printed\n");
}

TEST(Log, TakesManyThreads) {
  const CapturedWarnings warnings;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] {
      for (int k = 0; k < 50; ++k) warn_once(std::to_string(k), "text");
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(warnings.messages().size(), 50u);
}

}  // namespace
}  // namespace coda
