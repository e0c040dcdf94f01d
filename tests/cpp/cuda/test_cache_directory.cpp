// Where the cache lives, which directories it refuses, and disks that fail.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "core/log.h"
#include "cuda/cache_support.h"

namespace coda::testing_support {
namespace {

using cuda::KernelCache;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class CacheDirectory : public CacheTest {
 protected:
  // The kernel comes, is not kept, and one warning says why: for two kernels and two processes' worth of asking.
  void expect_memory_only(const std::string& why) {
    const CapturedWarnings warnings;
    KernelCache shared = cache();
    EXPECT_EQ(shared.get(source_of("a"))->image, fake_cubin("a"));
    EXPECT_EQ(shared.get(source_of("b"))->image, fake_cubin("b"));
    EXPECT_EQ(cache().get(source_of("a"))->image, fake_cubin("a"));
    EXPECT_EQ(compilations(), 3);
    EXPECT_THAT(warnings.messages(), ElementsAre(AllOf(HasSubstr(why), HasSubstr("set CODA_CACHE_DIR to"))));
    EXPECT_THAT(shared.report().problem, HasSubstr(why));
    EXPECT_FALSE(shared.report().writable);
    EXPECT_THAT(shared.entries(), IsEmpty());
  }
};

std::string directory_for(const std::string& cache_dir, const std::string& xdg, const std::string& home) {
  Options options;
  options.cache_dir = cache_dir;
  options.xdg_cache_home = xdg;
  options.home = home;
  return cuda::cache_settings(options).directory;
}

TEST(CacheSettings, ChooseTheDirectory) {
  EXPECT_EQ(directory_for("/a/b", "/x", "/h"), "/a/b");
  EXPECT_EQ(directory_for("", "/x", "/h"), "/x/coda");
  EXPECT_EQ(directory_for("", "", "/h"), "/h/.cache/coda");
  EXPECT_EQ(directory_for("", "relative", "/h"), "/h/.cache/coda");
  EXPECT_EQ(directory_for("", "", ""), "");
  EXPECT_EQ(directory_for("", "", "relative"), "");
  EXPECT_EQ(directory_for("", "", "/"), "/.cache/coda");
  EXPECT_EQ(directory_for("/a/b/", "", ""), "/a/b");
  EXPECT_EQ(directory_for("/a/./b/.", "", ""), "/a/b");
  EXPECT_EQ(directory_for("here", "", ""), (fs::current_path() / "here").string());
}

TEST_F(CacheDirectory, IsRefusedAsALink) {
  fs::create_directory(folder_.path() + "/real");
  fs::permissions(folder_.path() + "/real", fs::perms(0700));
  fs::create_directory_symlink(folder_.path() + "/real", directory());
  expect_memory_only("it is a symbolic link");
  EXPECT_EQ(files_in(folder_.path() + "/real"), 0);
}

TEST_F(CacheDirectory, IsRefusedWhenOthersCanWrite) {
  fs::create_directory(directory());
  fs::permissions(directory(), fs::perms(0777));
  expect_memory_only("others can write into it (mode 777)");
  EXPECT_EQ(files_in(directory()), 0);
  fs::permissions(directory(), fs::perms(0720));
  EXPECT_THAT(cache().report().problem, HasSubstr("(mode 720)"));
  EXPECT_THROW(cache().clear(), FileError);
}

TEST_F(CacheDirectory, IsRefusedWhenItIsAnothers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  fs::create_directory(directory());
  fs::permissions(directory(), fs::perms(0755));
  ASSERT_EQ(::chown(directory().c_str(), 4711, 4711), 0);
  expect_memory_only("it belongs to user 4711, this process runs as user 0");
  EXPECT_EQ(files_in(directory()), 0);
}

TEST_F(CacheDirectory, IsRefusedWhenItIsAFile) {
  write(directory(), "a file");
  expect_memory_only("it is no directory");
}

TEST_F(CacheDirectory, IsNoneBelowAFile) {
  write(folder_.path() + "/file", "");
  const CapturedWarnings warnings;
  KernelCache below(settings_of(folder_.path() + "/file/cache"), compiler_.compiler());
  EXPECT_EQ(below.get(source_of("a"))->image, fake_cubin("a"));
  EXPECT_THAT(warnings.messages(), ElementsAre(HasSubstr("it cannot be created (Not a directory)")));
  EXPECT_THAT(below.report().problem, HasSubstr("it is no directory"));
}

TEST_F(CacheDirectory, IsMadeWithThoseAbove) {
  KernelCache deep(settings_of(folder_.path() + "/a/b/c"), compiler_.compiler());
  EXPECT_TRUE(deep.report().writable);
  EXPECT_EQ(deep.report().problem, "");
  EXPECT_FALSE(fs::exists(folder_.path() + "/a")) << "a report makes nothing";
  deep.get(source_of("a"));
  EXPECT_EQ(deep.entries().size(), 1u);
  for (const char* made : {"/a", "/a/b", "/a/b/c"})
    EXPECT_EQ(fs::status(folder_.path() + made).permissions(), fs::perms(0700)) << made;
}

// Runs as a user that no passwd file knows, with a home that nothing can be written into.
TEST_F(CacheDirectory, IsNotNeededByAnUnknownUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  for (const std::string home : {"/proc", "/", "/nowhere", ""}) {
    const pid_t child = start([&] {
      if (::setgid(54321) != 0 || ::setuid(54321) != 0) return 2;
      Options options;
      options.home = home;
      const CapturedWarnings warnings;
      KernelCache shared(cuda::cache_settings(options), compiler_.compiler());
      if (shared.get(source_of("a"))->image != fake_cubin("a")) return 3;
      return warnings.messages().size() == 1 && !shared.report().writable ? 0 : 4;
    });
    EXPECT_EQ(wait_for(child), 0) << home;
  }
}

TEST_F(CacheDirectory, CanBeReadByAUserWhoMayNotWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  fs::permissions(folder_.path(), fs::perms(0755));
  cache().get(source_of("a"));
  for (const auto& below : {directory(), entry_path(source_of("a"))}) fs::permissions(below, fs::perms(0755));
  for (const char* name : {"/kernel.cu", "/kernel.cubin", "/meta.json"})
    fs::permissions(entry_path(source_of("a")) + name, fs::perms(0644));
  const pid_t child = start([&] {
    if (::setgid(54321) != 0 || ::setuid(54321) != 0) return 2;
    const CapturedWarnings warnings;
    KernelCache reader = cache(cuda::CacheMode::ReadOnly);
    if (reader.get(source_of("a"))->image != fake_cubin("a") || compilations() != 1) return 3;
    if (reader.get(source_of("b"))->image != fake_cubin("b") || compilations() != 2) return 4;
    return warnings.messages().empty() ? 0 : 5;
  });
  EXPECT_EQ(wait_for(child), 0);
}

TEST_F(CacheDirectory, MayBeTheUsersButClosed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  fs::create_directory(directory());
  fs::permissions(directory(), fs::perms(0500));
  ASSERT_EQ(::chown(directory().c_str(), 54321, 54321), 0);
  fs::permissions(folder_.path(), fs::perms(0755));
  const pid_t child = start([&] {
    if (::setgid(54321) != 0 || ::setuid(54321) != 0) return 2;
    const CapturedWarnings warnings;
    KernelCache shared = cache();
    for (const char* text : {"a", "b"})
      if (shared.get(source_of(text))->image != fake_cubin(text)) return 3;
    if (shared.report().writable) return 4;
    const auto said = warnings.messages();
    return said.size() == 1 && said[0].find("cannot be written (Permission denied)") != std::string::npos ? 0 : 5;
  });
  EXPECT_EQ(wait_for(child), 0);
}

TEST_F(CacheDirectory, MayBeFull) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a small disk";
  const std::string disk = folder_.path() + "/disk";
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0)
    GTEST_SKIP() << "a tmpfs cannot be mounted here: " << std::strerror(errno);
  {
    const CapturedWarnings warnings;
    KernelCache shared(settings_of(disk + "/cache"), compiler_.compiler());
    for (int i = 0; i < 10; ++i) {
      const std::string text = std::to_string(i) + std::string(10'000, 'x');
      EXPECT_EQ(shared.get(source_of(text))->image, fake_cubin(text));
    }
    EXPECT_THAT(warnings.messages(), ElementsAre(HasSubstr("cannot be written (No space left on device)")));
    const auto entries = shared.entries();
    EXPECT_GT(entries.size(), 0u);
    EXPECT_LT(entries.size(), 10u);
    for (const auto& entry : entries) EXPECT_TRUE(entry.valid);
    for (const auto& item : fs::directory_iterator(disk + "/cache"))
      EXPECT_FALSE(item.path().filename().string().starts_with(".tmp")) << "left aside: " << item.path();
  }
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

TEST_F(CacheDirectory, MayTakeNoLargeFiles) {
  const pid_t child = start([&] {
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const CapturedWarnings warnings;
    KernelCache shared = cache();
    const std::string large(10'000, 'x');
    if (shared.get(source_of(large))->image != fake_cubin(large)) return 3;
    if (shared.get(source_of("small"))->image != fake_cubin("small")) return 4;
    const auto said = warnings.messages();
    if (said.size() != 1 || said[0].find("cannot be written (File too large)") == std::string::npos) return 5;
    return shared.entries().size() == 1 && files_in(directory()) == 2 ? 0 : 6;
  });
  EXPECT_EQ(wait_for(child), 0);
}

TEST_F(CacheDirectory, MayRefuseTheNewName) {
  const CapturedWarnings warnings;
  compiler_.meanwhile = [&] { write(entry_path(source_of("a")), "a file where the entry goes"); };
  EXPECT_EQ(cache().get(source_of("a"))->image, fake_cubin("a"));
  EXPECT_THAT(warnings.messages(), ElementsAre(HasSubstr("cannot be written (Not a directory)")));
  EXPECT_EQ(files_in(directory()), 2) << "nothing is left aside";
}

// --- the whole way, from the environment of a process ----------------------------------------------------------------

struct Outcome {
  int status = 0;
  std::string errors;  ///< what it wrote to stderr
};

// Gets two kernels in a process that has these variables alone.
Outcome run_with(const std::vector<std::pair<std::string, std::string>>& environment) {
  int pipe[2];
  if (::pipe(pipe) != 0) return {-1, "no pipe"};
  const pid_t child = start([&] {
    ::dup2(pipe[1], STDERR_FILENO);
    ::clearenv();
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    KernelCache shared(cuda::cache_settings(read_options()), FakeCompiler{}.compiler());
    for (const char* text : {"a", "b"})
      if (shared.get(source_of(text))->image != fake_cubin(text)) return 3;
    return 0;
  });
  ::close(pipe[1]);
  Outcome run;
  char buffer[4096];
  for (ssize_t got; (got = ::read(pipe[0], buffer, sizeof buffer)) > 0;)
    run.errors.append(buffer, static_cast<std::size_t>(got));
  ::close(pipe[0]);
  run.status = wait_for(child);
  return run;
}

TEST(CacheEnvironment, DecidesInAProcess) {
  const TemporaryFolder folder;
  Outcome run = run_with({{"XDG_CACHE_HOME", folder.path() + "/x"}, {"HOME", "/proc"}});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.errors, "");
  EXPECT_EQ(files_in(folder.path() + "/x/coda"), 3) << "two entries and .locks";
  run = run_with({{"HOME", "/proc"}});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.errors,
              StartsWith("coda: warning: kernel cache: '/proc/.cache/coda' is not used: it cannot be created"));
  EXPECT_EQ(std::count(run.errors.begin(), run.errors.end(), '\n'), 1) << run.errors;
  run = run_with({});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.errors,
            "coda: warning: kernel cache: no directory is used: none of CODA_CACHE_DIR, XDG_CACHE_HOME and HOME names "
            "one: kernels are compiled anew in each process: set CODA_CACHE_DIR to a directory that only you can "
            "write\n");
  run = run_with({{"CODA_CACHE", "off"}, {"CODA_CACHE_DIR", folder.path() + "/off"}});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.errors, "");
  EXPECT_FALSE(fs::exists(folder.path() + "/off"));
}

}  // namespace
}  // namespace coda::testing_support
