// Recorded schedules: kept and found again, here and by other processes, whatever state the disk is in.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "core/log.h"
#include "schedule/records.h"
#include "support/temporary_folder.h"

namespace coda::testing_support {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

constexpr const char* kGpu = "NVIDIA H200";

RecordKey key_of(const std::string& kernel, std::int64_t m = 128) { return {kGpu, kernel, m_bucket(m), 4096, 1024}; }

Record record_of(const std::string& kernel, int stages = 4) {
  return {key_of(kernel), {.stages = stages}, 0.125, "2026-11-29"};
}

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Records : public testing::Test {
 protected:
  std::string root() const { return folder_.path() + "/cache"; }
  std::string file() const { return root() + "/tuned/NVIDIA-H200.json"; }
  void write(const std::string& content) const {
    fs::create_directories(root() + "/tuned");
    std::ofstream(file()) << content;
  }

  TemporaryFolder folder_;
};

TEST(RecordBuckets, ArePowersOfTwoFrom16) {
  const std::pair<std::int64_t, std::int64_t> expected[] = {
      {0, 16}, {1, 16}, {16, 16}, {17, 32}, {32, 32}, {33, 64}, {4096, 4096}, {4097, 8192}, {1000000, 1 << 20}};
  for (const auto& [m, bucket] : expected) EXPECT_EQ(m_bucket(m), bucket) << m;
}

TEST_F(Records, AreFoundByEveryPartOfTheirKey) {
  const RecordsForTesting here(root());
  EXPECT_EQ(find_record(key_of("k")), std::nullopt);
  keep_record(record_of("k", 5));
  ASSERT_NE(find_record(key_of("k")), std::nullopt);
  EXPECT_EQ(find_record(key_of("k"))->stages, 5);
  EXPECT_EQ(find_record(key_of("k", 100)), find_record(key_of("k"))) << "one bucket";
  for (int part = 0; part < 5; ++part) {
    RecordKey other = key_of("k");
    if (part == 0) other.gpu = "NVIDIA H100";
    if (part == 1) other.kernel = "l";
    if (part == 2) other.m_bucket = 256;
    if (part == 3) other.n = 4097;
    if (part == 4) other.k = 1023;
    EXPECT_EQ(find_record(other), std::nullopt) << part;
  }
}

TEST_F(Records, AreReadAgainFromDisk) {
  const RecordsForTesting here(root());
  const std::string kernel = "bf16, \"quoted\"\nprogram\tbias é";
  const Schedule schedule{.tile_m = 256, .tile_n = 96, .split_k = 2, .ping_pong = true, .sub = 32};
  keep_record({key_of(kernel), schedule, 0.1 + 0.2, "2026-11-29"});
  keep_record(record_of("other"));
  forget_records_for_testing();
  EXPECT_EQ(find_record(key_of(kernel)), schedule);
  const std::vector<Record> all = records_of(kGpu);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].key, key_of(kernel));
  EXPECT_EQ(all[0].milliseconds, 0.1 + 0.2);
  EXPECT_EQ(all[0].date, "2026-11-29");
  EXPECT_EQ(records_file(kGpu), file());
  EXPECT_THAT(records_of("NVIDIA H100"), IsEmpty());
}

TEST_F(Records, AreReadableAndNothingIsLeftAside) {
  const RecordsForTesting here(root());
  keep_record(record_of("k"));
  EXPECT_EQ(read(file()), R"({
  "schema": 1,
  "gpu": "NVIDIA H200",
  "records": [
    {
      "m_bucket": 128,
      "n": 4096,
      "k": 1024,
      "schedule": "128x256 cooperative, 4 stages, cluster 1x1, raster 8, sub 64, buffers 2+2",
      "milliseconds": 0.125,
      "date": "2026-11-29",
      "kernel": "k"
    }
  ]
}
)");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root() + "/tuned")) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("NVIDIA-H200.json", "NVIDIA-H200.json.lock"));
  EXPECT_EQ(fs::status(root()).permissions(), fs::perms::owner_all) << "as the kernel cache asks of its directory";
}

TEST_F(Records, ReplaceTheOneOfTheSameKey) {
  const RecordsForTesting here(root());
  keep_record(record_of("k", 3));
  keep_record(record_of("k", 4));
  EXPECT_EQ(records_of(kGpu).size(), 1u);
  forget_records_for_testing();
  EXPECT_EQ(records_of(kGpu).size(), 1u);
  EXPECT_EQ(find_record(key_of("k"))->stages, 4);
}

TEST_F(Records, OfADamagedFileAreNoneWithOneWarning) {
  const RecordsForTesting here(root());
  const std::string good = [&] {
    keep_record(record_of("k"));
    return read(file());
  }();
  std::vector<std::string> damaged{"",
                                   "no json",
                                   "[]",
                                   "{}",
                                   R"({"schema": 1})",
                                   R"({"schema": 1, "records": [{}]})",
                                   R"({"schema": 1, "records": 7})"};
  for (std::size_t length = 1; length + 2 < good.size(); length += 7) damaged.push_back(good.substr(0, length));
  std::string bad_schedule = good;
  bad_schedule.replace(bad_schedule.find("128x256"), 7, "128y256");
  damaged.push_back(bad_schedule);
  for (const std::string& content : damaged) {
    SCOPED_TRACE(content);
    write(content);
    forget_records_for_testing();
    const CapturedWarnings warnings;
    EXPECT_EQ(find_record(key_of("k")), std::nullopt);
    EXPECT_EQ(find_record(key_of("l")), std::nullopt);
    forget_records_for_testing();
    EXPECT_EQ(find_record(key_of("k")), std::nullopt);
    ASSERT_EQ(warnings.messages().size(), 1u);
    EXPECT_THAT(warnings.messages()[0],
                testing::StartsWith("tune: the recorded schedules in " + file() + " cannot be read ("));
    EXPECT_THAT(warnings.messages()[0], testing::EndsWith("): they are ignored; delete the file, or tune again"));
  }
  const CapturedWarnings warnings;
  keep_record(record_of("l"));
  forget_records_for_testing();
  EXPECT_NE(find_record(key_of("l")), std::nullopt) << "a damaged file is replaced";
}

TEST_F(Records, OfAnotherSchemaAreNone) {
  const RecordsForTesting here(root());
  write(R"({"schema": 2, "records": "of another kind"})");
  const CapturedWarnings warnings;
  EXPECT_EQ(find_record(key_of("k")), std::nullopt);
  EXPECT_THAT(warnings.messages(), IsEmpty());
}

TEST_F(Records, OfOtherProcessesSurviveAWrite) {
  const RecordsForTesting here(root());
  EXPECT_THAT(records_of(kGpu), IsEmpty()) << "read before the others write";
  constexpr int kWriters = 8, kEach = 5;
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      for (int i = 0; i < kEach; ++i)
        keep_record(record_of("writer " + std::to_string(writer) + " number " + std::to_string(i)));
      ::_exit(0);
    }
    children.push_back(child);
  }
  keep_record(record_of("parent"));
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  forget_records_for_testing();
  EXPECT_EQ(records_of(kGpu).size(), static_cast<std::size_t>(kWriters * kEach + 1));
  for (int writer = 0; writer < kWriters; ++writer)
    for (int i = 0; i < kEach; ++i)
      EXPECT_NE(find_record(key_of("writer " + std::to_string(writer) + " number " + std::to_string(i))), std::nullopt);
}

TEST_F(Records, OfSeveralThreadsAreAllKept) {
  const RecordsForTesting here(root());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([i] {
      keep_record(record_of("thread " + std::to_string(i)));
      (void)find_record(key_of("k"));
    });
  for (std::thread& thread : threads) thread.join();
  forget_records_for_testing();
  EXPECT_EQ(records_of(kGpu).size(), 8u);
}

TEST_F(Records, AreOnlyReadWithCacheRo) {
  {
    const RecordsForTesting writable(root());
    keep_record(record_of("old"));
  }
  const std::string before = read(file());
  const RecordsForTesting here(root(), "ro");
  const CapturedWarnings warnings;
  EXPECT_NE(find_record(key_of("old")), std::nullopt);
  keep_record(record_of("new"));
  EXPECT_NE(find_record(key_of("new")), std::nullopt) << "in this process";
  EXPECT_EQ(read(file()), before);
  EXPECT_THAT(warnings.messages(), IsEmpty());
}

TEST_F(Records, StayInTheProcessWithCacheOff) {
  const RecordsForTesting here(root(), "off");
  const CapturedWarnings warnings;
  keep_record(record_of("k"));
  EXPECT_NE(find_record(key_of("k")), std::nullopt);
  EXPECT_EQ(records_file(kGpu), "");
  EXPECT_FALSE(fs::exists(root()));
  EXPECT_THAT(warnings.messages(), IsEmpty());
}

TEST_F(Records, StayInTheProcessWhenTheDiskCannotBeWritten) {
  folder_.write("file", "in the way");
  for (const std::string& root : {folder_.path() + "/file/cache", std::string()}) {
    const RecordsForTesting here(root);
    const CapturedWarnings warnings;
    keep_record(record_of("k"));
    keep_record(record_of("l"));
    EXPECT_NE(find_record(key_of("k")), std::nullopt);
    EXPECT_NE(find_record(key_of("l")), std::nullopt);
    EXPECT_THAT(warnings.messages(),
                ElementsAre("tune: the schedule chosen could not be written to '" + records_file(kGpu) +
                            "': it is kept for this process alone; check the directory and its free space"));
  }
}

}  // namespace
}  // namespace coda::testing_support
