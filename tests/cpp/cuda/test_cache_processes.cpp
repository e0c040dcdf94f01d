// The kernel cache among processes: one compilation, whoever is killed, stopped or first.
#include <fcntl.h>
#include <gmock/gmock.h>

#include <csignal>

#include "core/log.h"
#include "cuda/cache_support.h"

namespace coda::testing_support {
namespace {

using cuda::KernelCache;
using testing::HasSubstr;
using testing::IsEmpty;

class CacheProcesses : public CacheTest {
 protected:
  CacheProcesses() {
    fs::create_directory(marks());
    compiler_.marks = marks();
  }
  std::string marks() const { return folder_.path() + "/marks"; }

  // A process that asks for a kernel; its status is 0 when it got the right one.
  pid_t ask(const std::string& text) const {
    return start([&] { return cache().get(source_of(text))->image == fake_cubin(text) ? 0 : 1; });
  }

  // A process that compiles and never ends, once it has begun.
  pid_t hang(const std::string& text) {
    compiler_.meanwhile = [] { std::this_thread::sleep_for(1h); };
    const pid_t child = ask(text);
    EXPECT_TRUE(wait_until([&] { return files_in(marks()) == 1; }));
    compiler_.meanwhile = nullptr;
    return child;
  }
};

TEST_F(CacheProcesses, CompileAColdKeyOnce) {
  compiler_.meanwhile = [] { std::this_thread::sleep_for(50ms); };
  // All wait for the pipe to close, so that they begin together.
  int barrier[2];
  ASSERT_EQ(::pipe(barrier), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i)
    children.push_back(start([&] {
      ::close(barrier[1]);
      char none;
      (void)!::read(barrier[0], &none, 1);
      return cache().get(source_of("text"))->image == fake_cubin("text") ? 0 : 1;
    }));
  ::close(barrier[0]);
  ::close(barrier[1]);
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(files_in(marks()), 1);
  EXPECT_EQ(files_in(directory()), 2) << "one entry, .locks, nothing aside";
  EXPECT_EQ(files_in(directory() + "/.locks"), 0);
}

TEST_F(CacheProcesses, GoOnWhenTheOneThatCompilesIsKilled) {
  const pid_t first = hang("text");
  std::vector<pid_t> others;
  for (int i = 0; i < 4; ++i) others.push_back(ask("text"));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(files_in(marks()), 1) << "they wait";
  ::kill(first, SIGKILL);
  EXPECT_EQ(wait_for(first), -SIGKILL);
  for (const pid_t other : others) EXPECT_EQ(wait_for(other), 0);
  EXPECT_EQ(files_in(marks()), 2) << "one of them compiled";
}

TEST_F(CacheProcesses, DoNotWaitForever) {
  const pid_t first = hang("text");
  const CapturedWarnings warnings;
  KernelCache impatient(settings_of(directory(), cuda::CacheMode::ReadWrite, 50ms), compiler_.compiler());
  EXPECT_EQ(impatient.get(source_of("text"))->image, fake_cubin("text"));
  EXPECT_EQ(impatient.get(source_of("other"))->image, fake_cubin("other")) << "other keys are not held up";
  EXPECT_THAT(warnings.messages(), testing::ElementsAre(HasSubstr("another process has been compiling 'kernel'")));
  EXPECT_EQ(impatient.entries().size(), 1u) << "what was not waited for is not kept";
  ::kill(first, SIGKILL);
  wait_for(first);
}

TEST_F(CacheProcesses, LoseARaceWithTheirOwnBytes) {
  const CapturedWarnings warnings;
  // Another host, say, that the lock does not reach: its entry is there first, and cannot be read.
  compiler_.meanwhile = [&] {
    fs::create_directory(entry_path(source_of("text")));
    write(entry_path(source_of("text")) + "/kernel.cu", "another's");
  };
  EXPECT_EQ(cache().get(source_of("text"))->image, fake_cubin("text"));
  EXPECT_EQ(read(entry_path(source_of("text")) + "/kernel.cu"), "another's");
  EXPECT_EQ(files_in(directory()), 2);
  EXPECT_THAT(warnings.messages(), IsEmpty());
}

TEST_F(CacheProcesses, WorkWhereNothingCanBeLocked) {
  fs::create_directory(directory());
  fs::permissions(directory(), fs::perms(0700));
  write(directory() + "/.locks", "no folder");
  EXPECT_EQ(cache().get(source_of("text"))->image, fake_cubin("text"));
  EXPECT_EQ(cache().entries().size(), 1u);
}

TEST_F(CacheProcesses, CompileAfterAForkInTheMiddle) {
  // The child has the slot of a compilation, and no thread that will fill it.
  std::atomic<bool> begun = false, proceed = false;
  compiler_.meanwhile = [&] {
    begun = true;
    while (!proceed) std::this_thread::sleep_for(1ms);
  };
  KernelCache shared(settings_of(""), compiler_.compiler());
  const CapturedWarnings warnings;
  std::thread worker([&] { shared.get(source_of("text")); });
  EXPECT_TRUE(wait_until([&] { return begun.load(); }));
  const pid_t child = start([&] {
    proceed = true;
    return shared.get(source_of("text"))->image == fake_cubin("text") ? 0 : 1;
  });
  EXPECT_EQ(wait_for(child), 0);
  proceed = true;
  worker.join();
}

TEST_F(CacheProcesses, RemoveWhatKilledOnesLeft) {
  cache().get(source_of("a"));
  const pid_t gone = start([] { return 0; });
  wait_for(gone);
  const auto leave = [&](pid_t process, std::chrono::seconds age) {
    static int counter = 1000;
    const std::string path = directory() + "/.tmp-" + std::to_string(process) + "-" + std::to_string(counter++);
    fs::create_directory(path);
    write(path + "/kernel.cu", "half");
    fs::last_write_time(path, fs::file_time_type::clock::now() - age);
    return path;
  };
  const std::string dead = leave(gone, 2min), dead_now = leave(gone, 0s), old = leave(::getpid(), 2h),
                    alive = leave(::getpid(), 2min);
  KernelCache shared = cache();
  shared.get(source_of("b"));
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(dead_now)) << "it may be alive on another host";
  EXPECT_TRUE(fs::exists(alive));
  shared.clear();
  EXPECT_FALSE(fs::exists(dead_now));
}

TEST_F(CacheProcesses, LeaveAtMostALeftoverWhenKilledWhileWriting) {
  // Kills at random times of a loop that writes entries: whatever is left, the next process gets every kernel.
  for (int round = 0; round < 10; ++round) {
    const pid_t writer = start([&] {
      for (int i = 0;; ++i) cache().get(source_of("text " + std::to_string(i % 100)));
      return 0;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 7 * round));
    ::kill(writer, SIGKILL);
    wait_for(writer);
    const CapturedWarnings warnings;
    for (const auto& entry : cache().entries()) EXPECT_TRUE(entry.valid) << entry.path;
    EXPECT_EQ(cache().get(source_of("text 0"))->image, fake_cubin("text 0"));
    EXPECT_THAT(warnings.messages(), IsEmpty());
    cache().clear();
  }
}

}  // namespace
}  // namespace coda::testing_support
