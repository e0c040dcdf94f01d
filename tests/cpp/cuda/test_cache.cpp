// The kernel cache in one process: memory, disk, keys, modes, and what may be asked about it.
#include <gmock/gmock.h>

#include <set>

#include "core/log.h"
#include "core/thread_count.h"
#include "cuda/cache_support.h"

namespace coda::testing_support {
namespace {

using cuda::Cubin;
using cuda::KernelCache;
using cuda::KernelSource;
using testing::HasSubstr;
using testing::IsEmpty;

using Cache = CacheTest;

TEST_F(Cache, CompilesATextOnce) {
  const KernelSource source = source_of("text");
  KernelCache first = cache();
  const KernelCache::Result made = first.get(source);
  EXPECT_EQ(made->image, fake_cubin("text"));
  EXPECT_EQ(first.get(source), made) << "from memory";
  KernelCache second = cache();
  const KernelCache::Result loaded = second.get(source);
  EXPECT_EQ(loaded->image, made->image) << "from disk";
  EXPECT_EQ(loaded->log, made->log);
  EXPECT_EQ(compilations(), 1);
}

TEST_F(Cache, KeepsAnEntryAPersonCanRead) {
  const KernelSource source = source_of("// text\n", "bias_gelu");
  cache().get(source);
  const std::string entry = entry_path(source);
  EXPECT_TRUE(fs::path(entry).filename().string().starts_with("bias_gelu."));
  EXPECT_EQ(read(entry + "/kernel.cu"), source.text);
  EXPECT_EQ(read(entry + "/kernel.cubin"), fake_cubin(source.text));
  const std::string meta = read(entry + "/meta.json");
  for (const std::string& line :
       {std::string(R"("arch": "sm_90a")"), std::string(R"("nvrtc": "13.0 fake")"), std::string(R"("schema": 1)"),
        R"("options": ")" + cuda::compile_options("sm_90a"), R"("coda": ")" + cuda::coda_version(),
        R"("key": ")" + cache().key(source), std::string(R"("log": "ptxas info    : Used 8 registers\n")")})
    EXPECT_THAT(meta, HasSubstr(line));
  const std::string created = cache().entries().at(0).created;
  EXPECT_THAT(created, testing::MatchesRegex("....-..-..T..:..:..Z"));
  EXPECT_THAT(meta, HasSubstr(created));
  EXPECT_EQ(files_in(directory()), 2) << "the entry and .locks, nothing left aside";
  EXPECT_EQ(files_in(directory() + "/.locks"), 0);
}

TEST_F(Cache, IsClosedToOthersWhateverTheUmask) {
  const mode_t before = ::umask(0);
  cache().get(source_of("text"));
  ::umask(before);
  for (const std::string& path : {directory(), entry_path(source_of("text"))}) {
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0700u) << path;
  }
}

TEST_F(Cache, KeepsALogThatIsNoText) {
  const auto compile = [](const KernelSource&) { return Cubin{fake_cubin("x"), "bad \xff\xfe byte"}; };
  const cuda::Compiler compiler{compile, [] { return std::string("1"); }};
  KernelCache(settings_of(directory()), compiler).get(source_of("text"));
  const CapturedWarnings warnings;
  EXPECT_EQ(KernelCache(settings_of(directory()), compiler).find(source_of("text"))->image, fake_cubin("x"));
  EXPECT_THAT(warnings.messages(), IsEmpty());
}

TEST(CacheKey, ChangesWithEachInput) {
  const cuda::CompilationInputs inputs{cuda::kCacheSchema, "name", "text", "sm_90a", "-O3", "13.0 x", "0.1.0", "files"};
  std::vector<cuda::CompilationInputs> all(9, inputs);
  all[1].schema += 1;
  all[2].name = "name2";
  all[3].text = "text ";
  all[4].arch = "sm_90";
  all[5].options = "-O2";
  all[6].nvrtc = "13.0 y";
  all[7].coda = "0.1.1";
  all[8].device_files = "file";
  std::set<std::string> keys;
  for (const cuda::CompilationInputs& each : all) keys.insert(key_of(each));
  EXPECT_EQ(keys.size(), all.size());
  EXPECT_EQ(key_of(inputs), key_of(all[0])) << "and with nothing else";
  // Neighbouring fields do not run into each other.
  cuda::CompilationInputs moved = inputs;
  moved.name = "nam";
  moved.text = "etext";
  EXPECT_NE(key_of(moved), key_of(inputs));
}

TEST(CacheKey, ChangesWithEachDeviceFile) {
  const std::vector<std::vector<cuda::DeviceFile>> all = {
      {{"a.cuh", "1"}, {"b.cuh", "2"}},
      {{"a.cuh", "1"}, {"c.cuh", "2"}},
      {{"a.cuh", "1"}, {"b.cuh", "3"}},
      {{"a.cuh", "1b"}, {".cuh", "2"}},
      {{"b.cuh", "2"}, {"a.cuh", "1"}},
      {{"a.cuh", "1"}},
      {},
  };
  std::set<std::string> digests;
  for (const auto& files : all) digests.insert(cuda::digest_of(files));
  EXPECT_EQ(digests.size(), all.size());
}

TEST(CacheKey, NamesAFolder) {
  const std::string key(32, 'a');
  EXPECT_TRUE(cuda::is_entry_name(cuda::entry_name("k", key)));
  EXPECT_LE(cuda::entry_name(std::string(1000, 'k'), key).size(), 255u);
  for (const char* other : {"", ".locks", ".tmp-12-0", "k", "k.aa", ".aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
    EXPECT_FALSE(cuda::is_entry_name(other)) << other;
}

TEST_F(Cache, SeparatesCompilersAndArchitectures) {
  KernelSource source = source_of("text");
  cache().get(source);
  compiler_.build = "13.1 fake";
  cache().get(source);
  source.arch = "sm_90";
  cache().get(source);
  EXPECT_EQ(compilations(), 3);
  EXPECT_EQ(cache().entries().size(), 3u);
}

TEST_F(Cache, CompilesOnceForManyThreads) {
  compiler_.meanwhile = [] { std::this_thread::sleep_for(30ms); };
  KernelCache shared = cache();
  std::vector<KernelCache::Result> results(32);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = shared.get(source_of("text")); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compilations(), 1);
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST_F(Cache, TriesAgainAfterAnError) {
  bool fails = true;
  compiler_.meanwhile = [&] {
    if (fails) throw InternalError("no");
  };
  KernelCache shared = cache();
  EXPECT_THROW(shared.get(source_of("text")), InternalError);
  EXPECT_THROW(cache().get(source_of("text")), InternalError);
  fails = false;
  EXPECT_EQ(shared.get(source_of("text"))->image, fake_cubin("text"));
  EXPECT_EQ(compilations(), 3);
  EXPECT_EQ(files_in(directory()), 2) << "the entry and .locks";
}

TEST_F(Cache, GivesAnErrorToEveryThreadThatWaits) {
  compiler_.meanwhile = [] {
    std::this_thread::sleep_for(20ms);
    throw InternalError("no");
  };
  KernelCache shared = cache();
  std::atomic<int> errors = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      try {
        shared.get(source_of("text"));
      } catch (const InternalError&) {
        ++errors;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, 8);
}

TEST_F(Cache, CompilesSeveralAtATime) {
  set_thread_count(4);
  KernelCache shared = cache();
  const auto results =
      shared.get(std::vector{source_of("a"), source_of("b"), source_of("a"), source_of("c"), source_of("b")});
  set_thread_count(0);
  EXPECT_EQ(compilations(), 3);
  ASSERT_EQ(results.size(), 5u);
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[3]->image, fake_cubin("c"));
  EXPECT_TRUE(shared.get(std::vector<KernelSource>{}).empty());
}

TEST_F(Cache, FinishesTheOthersWhenOneDoesNotCompile) {
  const auto compile = [](const KernelSource& source) -> Cubin {
    if (source.text != "good") throw InternalError(source.text);
    return {fake_cubin(source.text), ""};
  };
  KernelCache shared(settings_of(directory()), {compile, [] { return std::string("1"); }});
  try {
    shared.get(std::vector{source_of("bad 1"), source_of("good"), source_of("bad 2")});
    ADD_FAILURE() << "no error";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(), "bad 1");
  }
  EXPECT_NE(shared.find(source_of("good")), nullptr);
}

TEST(CacheJobs, FitThreadsMemoryAndWork) {
  const auto memory = [](int gib) { return "MemTotal: 9 kB\nMemAvailable:   " + std::to_string(gib << 20) + " kB\n"; };
  EXPECT_EQ(cuda::compile_jobs(100, 8, memory(64)), 8);
  EXPECT_EQ(cuda::compile_jobs(3, 8, memory(64)), 3);
  EXPECT_EQ(cuda::compile_jobs(100, 8, memory(5)), 5);
  EXPECT_EQ(cuda::compile_jobs(100, 8, memory(0)), 1);
  EXPECT_EQ(cuda::compile_jobs(0, 8, memory(5)), 1);
  EXPECT_EQ(cuda::compile_jobs(100, 8, ""), 8);
}

TEST_F(Cache, FindsWithoutCompiling) {
  EXPECT_EQ(cache().find(source_of("text")), nullptr);
  EXPECT_FALSE(fs::exists(directory())) << "looking makes nothing";
  KernelCache first = cache();
  const KernelCache::Result made = first.get(source_of("text"));
  EXPECT_EQ(first.find(source_of("text")), made);
  KernelCache second = cache();
  const KernelCache::Result found = second.find(source_of("text"));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(second.get(source_of("text")), found);
  EXPECT_EQ(compilations(), 1);
}

TEST_F(Cache, WritesNothingWhenOnlyReading) {
  const CapturedWarnings warnings;
  cache(cuda::CacheMode::ReadOnly).get(source_of("text"));
  EXPECT_FALSE(fs::exists(directory()));
  cache().get(source_of("text"));
  write(entry_path(source_of("text")) + "/kernel.cubin", "damaged");
  KernelCache reader = cache(cuda::CacheMode::ReadOnly);
  EXPECT_EQ(reader.get(source_of("text"))->image, fake_cubin("text"));
  EXPECT_EQ(reader.get(source_of("new"))->image, fake_cubin("new"));
  EXPECT_EQ(read(entry_path(source_of("text")) + "/kernel.cubin"), "damaged") << "not replaced";
  EXPECT_EQ(files_in(directory()), 2);
  EXPECT_EQ(warnings.messages().size(), 1u);
  EXPECT_FALSE(reader.report().writable);
  EXPECT_THROW(reader.clear(), FileError);
}

TEST_F(Cache, ReadsADirectoryOfAnotherUserWhenOnlyReading) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  cache().get(source_of("text"));
  fs::permissions(directory(), fs::perms(0755));
  ASSERT_EQ(::chown(directory().c_str(), 4711, 4711), 0);
  ASSERT_EQ(::chown(entry_path(source_of("text")).c_str(), 4711, 4711), 0);
  KernelCache reader = cache(cuda::CacheMode::ReadOnly);
  EXPECT_EQ(reader.get(source_of("text"))->image, fake_cubin("text"));
  EXPECT_EQ(compilations(), 1);
  fs::permissions(directory(), fs::perms(0777));
  const CapturedWarnings warnings;
  cache(cuda::CacheMode::ReadOnly).get(source_of("text"));
  EXPECT_EQ(compilations(), 2) << "not when everybody can write into it";
  EXPECT_EQ(warnings.messages().size(), 1u);
}

TEST_F(Cache, TouchesNoDiskWhenOff) {
  cache().get(source_of("text"));
  KernelCache off = cache(cuda::CacheMode::Off);
  EXPECT_EQ(off.find(source_of("text")), nullptr);
  off.get(source_of("text"));
  off.get(source_of("text"));
  off.get(source_of("other"));
  EXPECT_EQ(compilations(), 3) << "memory is still one";
  EXPECT_EQ(off.entries().size(), 1u);
  EXPECT_EQ(off.report().problem, "CODA_CACHE is off: unset it to keep kernels on disk");
}

TEST_F(Cache, SurvivesItsRemoval) {
  const CapturedWarnings warnings;
  KernelCache shared = cache();
  const KernelCache::Result made = shared.get(source_of("a"));
  fs::remove_all(directory());
  EXPECT_EQ(shared.get(source_of("a")), made);
  shared.get(source_of("b"));
  EXPECT_EQ(shared.entries().size(), 1u) << "made again";
  compiler_.meanwhile = [&] { fs::remove_all(directory()); };
  KernelCache other = cache();
  EXPECT_EQ(other.get(source_of("c"))->image, fake_cubin("c"));
  EXPECT_EQ(other.entries().size(), 1u) << "removed in the middle of a compilation";
  EXPECT_THAT(warnings.messages(), IsEmpty());
}

TEST_F(Cache, ListsAndClears) {
  KernelCache shared = cache();
  EXPECT_THAT(shared.entries(), IsEmpty());
  EXPECT_EQ(shared.clear(), 0);
  shared.get(source_of("a", "first"));
  shared.get(source_of("b", "second"));
  write(directory() + "/mine.txt", "not the cache's");
  write(entry_path(source_of("b", "second")) + "/kernel.cubin", "damaged");
  const auto entries = shared.entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_TRUE(entries[0].name.starts_with("first."));
  EXPECT_EQ(entries[0].path, directory() + "/" + entries[0].name);
  EXPECT_TRUE(entries[0].valid);
  EXPECT_GT(entries[0].bytes, 500);
  EXPECT_FALSE(entries[0].created.empty());
  EXPECT_FALSE(entries[1].valid);
  EXPECT_TRUE(shared.report().writable);
  EXPECT_EQ(shared.report().directory, directory());
  EXPECT_EQ(shared.report().problem, "");
  EXPECT_EQ(shared.clear(), 2);
  EXPECT_EQ(files_in(directory()), 1) << "what is not the cache's stays";
  EXPECT_EQ(shared.get(source_of("a", "first"))->image, fake_cubin("a")) << "memory stays";
}

TEST_F(Cache, CanTakeThePlaceOfTheProcessesOwn) {
  cuda::set_process_cache_for_testing(std::make_unique<KernelCache>(settings_of(directory()), compiler_.compiler()));
  const KernelSource source = source_of("text");
  EXPECT_EQ(cuda::find_compiled(source), nullptr);
  EXPECT_EQ(cuda::compiled(source), cuda::compiled(std::vector{source})[0]);
  EXPECT_EQ(cuda::cache_entries().size(), 1u);
  EXPECT_EQ(cuda::cache_entries()[0].name, "kernel." + cuda::cache_key(source));
  EXPECT_EQ(cuda::cache_report().directory, directory());
  EXPECT_EQ(cuda::clear_cache(), 1);
  cuda::set_process_cache_for_testing(nullptr);
}

}  // namespace
}  // namespace coda::testing_support
