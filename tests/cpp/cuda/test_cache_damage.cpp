// Damaged and planted entries: each is noticed, replaced, and told once.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "core/log.h"
#include "cuda/cache_support.h"
#include "cuda/compile/cache_meta.h"
#include "cuda/compile/digest.h"

namespace coda::testing_support {
namespace {

using cuda::KernelCache;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CacheDamage : public CacheTest {
 protected:
  CacheDamage() { cache().get(source_); }
  std::string file(const std::string& name) const { return entry_path(source_) + "/" + name; }

  // The next process compiles again, says `why` once, and the one after finds a sound entry.
  void expect_recovery(const std::string& why) {
    const CapturedWarnings warnings;
    const int before = compilations();
    EXPECT_EQ(cache().get(source_)->image, fake_cubin(source_.text));
    EXPECT_EQ(compilations(), before + 1);
    EXPECT_THAT(warnings.messages(), ElementsAre(HasSubstr(why)));
    EXPECT_EQ(cache().get(source_)->image, fake_cubin(source_.text));
    EXPECT_EQ(compilations(), before + 1);
    EXPECT_EQ(warnings.messages().size(), 1u);
  }

  // Flips each bit of a file in turn; counts the flips after which reading gives another kernel than was kept, or takes
  // a changed kernel for a sound one. Of meta.json some bits are free: spaces between its fields.
  int missed_flips(const std::string& name) {
    const std::string sound = read(file(name)), entry = fs::path(entry_path(source_)).filename();
    const cuda::CacheDirectory open = cuda::open_cache_directory(settings_of(directory()), false);
    int missed = 0;
    for (std::size_t bit = 0; bit < 8 * sound.size(); ++bit) {
      std::string damaged = sound;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      write(file(name), damaged);
      const cuda::Entry got = cuda::read_entry(open.descriptor.get(), entry);
      const bool same = got.state == cuda::EntryState::Good && got.cubin.image == fake_cubin(source_.text) &&
                        got.text == source_.text && got.arch == source_.arch;
      if (got.state != cuda::EntryState::Bad && !(same && name == "meta.json")) ++missed;
    }
    write(file(name), sound);
    return missed;
  }

  const cuda::KernelSource source_ = source_of("a short text");
};

TEST_F(CacheDamage, IsRepairedAtEveryLength) {
  for (const char* name : {"kernel.cubin", "kernel.cu", "meta.json"}) {
    SCOPED_TRACE(name);
    // The last byte of meta.json ends its line: without it the content is the same.
    const std::size_t length = fs::file_size(file(name)) - (std::string(name) == "meta.json" ? 1 : 0);
    for (std::size_t size = 0; size < length; ++size) {
      fs::resize_file(file(name), size);
      expect_recovery(name);
      if (HasFailure()) FAIL() << "at length " << size;
    }
  }
  EXPECT_EQ(files_in(directory()), 2);
}

TEST_F(CacheDamage, IsNoticedAtEveryBit) {
  for (const char* name : {"kernel.cubin", "kernel.cu", "meta.json"}) EXPECT_EQ(missed_flips(name), 0) << name;
  const CapturedWarnings warnings;
  EXPECT_EQ(cache().get(source_)->image, fake_cubin(source_.text));
  EXPECT_THAT(warnings.messages(), IsEmpty());
}

TEST_F(CacheDamage, OfAnyKindIsRepaired) {
  write(file("kernel.cubin"), read(file("kernel.cubin")) + "more");
  expect_recovery("kernel.cubin has");
  fs::remove(file("meta.json"));
  expect_recovery("meta.json cannot be read (No such file or directory)");
  write(file("meta.json"), "[1, 2]");
  expect_recovery("meta.json cannot be read");
  fs::remove(file("kernel.cubin"));
  fs::create_directory(file("kernel.cubin"));
  expect_recovery("kernel.cubin cannot be read");
  fs::remove(file("kernel.cu"));
  ASSERT_EQ(::mkfifo(file("kernel.cu").c_str(), 0600), 0);
  expect_recovery("kernel.cu cannot be read");
  fs::rename(file("kernel.cubin"), folder_.path() + "/elsewhere");
  fs::create_symlink(folder_.path() + "/elsewhere", file("kernel.cubin"));
  expect_recovery("kernel.cubin cannot be read");
  fs::remove_all(entry_path(source_));
  write(entry_path(source_), "a file");
  expect_recovery("it is no folder that can be read");
  fs::rename(entry_path(source_), folder_.path() + "/moved");
  fs::create_symlink(folder_.path() + "/moved", entry_path(source_));
  expect_recovery("it is no folder that can be read");
  fs::permissions(entry_path(source_), fs::perms(0777));
  expect_recovery("others can write into it");
  EXPECT_TRUE(fs::exists(folder_.path() + "/moved/kernel.cu")) << "a link's target is left alone";
}

TEST_F(CacheDamage, AnEntryUnderAnothersNameIsNotUsed) {
  cache().get(source_of("other text"));
  fs::remove_all(entry_path(source_));
  fs::copy(entry_path(source_of("other text")), entry_path(source_));
  fs::permissions(entry_path(source_), fs::perms(0700));
  expect_recovery("meta.json is that of kernel.");
}

// An entry with all checksums right, made up by somebody who knows the format.
TEST_F(CacheDamage, APlantedEntryOfAnotherArchitectureIsNotUsed) {
  const std::string key = cache().key(source_);
  const auto plant = [&](const std::string& text, const std::string& arch, const std::string& image) {
    fs::remove_all(entry_path(source_));
    cuda::CompilationInputs inputs;
    inputs.name = source_.name;
    inputs.text = text;
    inputs.arch = arch;
    const auto open = cuda::open_cache_directory(settings_of(directory()), false);
    ASSERT_EQ(cuda::write_entry(open.descriptor.get(), cuda::entry_name(source_.name, key), key, inputs, {image, ""}),
              "");
  };
  plant(source_.text, "sm_90a", fake_cubin(source_.text, 80));
  expect_recovery("kernel.cubin: its code is for sm_80, not sm_90a");
  plant(source_.text, "sm_90a", "no ELF, but long enough to be one: more than sixty-four bytes, as you can see");
  expect_recovery("kernel.cubin: it is no ELF file");
  plant(source_.text, "sm_80", fake_cubin(source_.text, 80));
  expect_recovery("it is for sm_80, expected sm_90a");
  plant("evil text", "sm_90a", fake_cubin("evil text"));
  expect_recovery("kernel.cu is another kernel's");
}

TEST_F(CacheDamage, AnEntryOfAnotherUserIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::chown(entry_path(source_).c_str(), 4711, 4711), 0);
  expect_recovery("others can write into it");
}

TEST_F(CacheDamage, AnEmptyFolderIsReplaced) {
  for (const char* name : {"kernel.cubin", "kernel.cu", "meta.json"}) fs::remove(file(name));
  expect_recovery("meta.json cannot be read");
}

TEST_F(CacheDamage, AnotherSchemaIsNotRead) {
  auto meta = read(file("meta.json"));
  cuda::EntryMeta parsed;
  EXPECT_EQ(cuda::parse_meta(meta, parsed), "");
  EXPECT_EQ(cuda::parse_meta(meta.substr(0, meta.size() / 2), parsed), "meta.json cannot be read");
  cuda::CompilationInputs inputs;
  inputs.schema = cuda::kCacheSchema + 1;
  EXPECT_THAT(cuda::parse_meta(cuda::make_meta("key", inputs, {}), parsed), HasSubstr("meta.json has schema"));
}

TEST(Digest, IsBlake3) {
  // From the specification's test vectors: no input, and the bytes 0, 1, 2.
  EXPECT_EQ(cuda::checksum(""), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
  EXPECT_EQ(cuda::checksum(std::string("\0\1\2", 3)),
            "e1be4d7a8ab5560aa4199eea339849ba8e293d55ca0a81006726d184519e647f");
}

}  // namespace
}  // namespace coda::testing_support
