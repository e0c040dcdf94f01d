// Real NVRTC: finding it, compiling with it, and what it says about a text that is wrong.
#include <gmock/gmock.h>

#include "cuda/cache_support.h"
#include "cuda/compile/cubin_header.h"
#include "cuda/compile/nvrtc_library.h"

namespace coda::testing_support {
namespace {

using cuda::KernelCache;
using cuda::KernelSource;
using testing::HasSubstr;

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda::nvrtc();
    } catch (const NotImplementedError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

// Includes a device file, so that it needs what is embedded.
std::string kernel_text(int constant) {
  return "#include \"ptx.cuh\"\n"
         "extern \"C\" __global__ void probe(float* out) {\n"
         "  out[threadIdx.x] = coda::lane_id() * " +
         std::to_string(constant) + ".5f;\n}\n";
}

TEST(DeviceFiles, AreThoseOfTheTree) {
  const fs::path folder = fs::path(CODA_SOURCE_DIR) / "src/cuda/device";
  std::size_t found = 0;
  for (const auto& item : fs::recursive_directory_iterator(folder)) found += item.path().extension() == ".cuh";
  EXPECT_EQ(cuda::device_files().size(), found);
  for (const cuda::DeviceFile& file : cuda::device_files()) {
    EXPECT_EQ(file.text, read(folder / file.path)) << file.path;
    EXPECT_EQ(file.text.data()[file.text.size()], '\0') << file.path;
  }
}

TEST_F(Nvrtc, CompilesATextThatIncludesDeviceFiles) {
  const cuda::Cubin cubin = cuda::compile("probe", kernel_text(1), "sm_90a");
  EXPECT_EQ(cuda::cubin_problem(cubin.image, "sm_90a"), "");
  EXPECT_THAT(cubin.image, HasSubstr("probe"));
  EXPECT_THAT(cubin.log, HasSubstr("Used "));
  EXPECT_THAT(cubin.log, HasSubstr("bytes spill stores"));
  EXPECT_NE(cuda::cubin_problem(cubin.image, "sm_80"), "");
}

TEST_F(Nvrtc, SaysWhatIsWrongWithAText) {
  try {
    cuda::compile("broken", "__global__ void k() { undeclared = 1; }", "sm_90a");
    ADD_FAILURE() << "no error";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("kernel 'broken' does not compile for sm_90a"));
    EXPECT_THAT(error.what(), HasSubstr("broken.cu(1): error: identifier \"undeclared\" is undefined"));
  }
}

TEST_F(Nvrtc, SaysWhatPtxasRefuses) {
  // An instruction of sm_90a alone.
  const char* text = "extern \"C\" __global__ void k() { asm volatile(\"wgmma.fence.sync.aligned;\"); }";
  EXPECT_EQ(cuda::cubin_problem(cuda::compile("wgmma", text, "sm_90a").image, "sm_90a"), "");
  try {
    cuda::compile("wgmma", text, "sm_90");
    ADD_FAILURE() << "no error";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("wgmma"));
  }
}

TEST_F(Nvrtc, TellsWhichItIs) {
  EXPECT_GE(std::stoi(cuda::nvrtc_version()), 12);
  EXPECT_TRUE(fs::exists(cuda::nvrtc_path())) << cuda::nvrtc_path();
  EXPECT_GT(cuda::nvrtc_build().size(), cuda::nvrtc_version().size() + 8);
  EXPECT_THROW(cuda::compile("k", "", "sm_35"), NotImplementedError);
  EXPECT_THROW(cuda::compile("k", "", "gfx90a"), NotImplementedError);
}

TEST_F(Nvrtc, CompilesFromManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      good += cuda::cubin_problem(cuda::compile("probe", kernel_text(i), "sm_90a").image, "sm_90a").empty();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
}

TEST_F(Nvrtc, FillsTheCache) {
  const TemporaryFolder folder;
  std::atomic<int> count = 0;
  cuda::Compiler compiler = cuda::nvrtc_compiler();
  compiler.compile = [&count, real = compiler.compile](const KernelSource& source) {
    ++count;
    return real(source);
  };
  KernelSource source{"probe", kernel_text(1), "sm_90a"};
  const std::string image = KernelCache(settings_of(folder.path()), compiler).get(source)->image;
  EXPECT_EQ(KernelCache(settings_of(folder.path()), compiler).get(source)->image, image);
  EXPECT_EQ(count, 1);
  source.arch = "sm_90";
  KernelCache shared(settings_of(folder.path()), compiler);
  EXPECT_NE(shared.get(source)->image, image);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(shared.entries().size(), 2u);
  source.text += "error";
  EXPECT_THROW(shared.get(source), InternalError);
  EXPECT_EQ(shared.entries().size(), 2u);
}

TEST_F(Nvrtc, IsFoundByFileAndByFolder) {
  const std::string path = cuda::nvrtc_path();
  EXPECT_EQ(cuda::open_nvrtc({path, {}, {}}).version(), cuda::nvrtc_version());
  const std::string name = "libnvrtc.so." + std::to_string(cuda::nvrtc().major);
  const TemporaryFolder packages;
  for (const char* below : {"", "/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"}) {
    // A name the loader does not know, so that only the folder can have it.
    const std::string other = "libnvrtc.so.of_a_test", folder = packages.path() + below;
    fs::create_directories(folder);
    fs::create_symlink(path, folder + "/" + other);
    EXPECT_EQ(cuda::open_nvrtc({"", {other}, {"/nowhere", packages.path()}}).version(), cuda::nvrtc_version());
    fs::remove(folder + "/" + other);
  }
  EXPECT_EQ(cuda::open_nvrtc({"", {"libnvrtc.so.0", name}, {}}).path, path) << "loaded already";
}

TEST(NvrtcSearch, TakesFoldersThatAreHandedIn) {
  cuda::add_nvrtc_folder("/handed/in");
  cuda::add_nvrtc_folder("/handed/in");
  const std::vector<std::string> folders = cuda::nvrtc_search().folders;
  EXPECT_EQ(std::count(folders.begin(), folders.end(), "/handed/in"), 1);
  EXPECT_EQ(folders[0], "/usr/local/cuda/lib64");
}

TEST(NvrtcSearch, RefusesOldVersions) {
  EXPECT_EQ(cuda::nvrtc_version_problem(11, 8), "its version is 11.8, older than 12.0");
  EXPECT_EQ(cuda::nvrtc_version_problem(12, 0), "");
  EXPECT_EQ(cuda::nvrtc_version_problem(13, 2), "");
}

TEST(CubinHeader, NamesTheArchitecture) {
  EXPECT_EQ(cuda::arch_number("sm_90a"), 90);
  EXPECT_EQ(cuda::arch_number("sm_120"), 120);
  EXPECT_EQ(cuda::arch_number("90"), 0);
  EXPECT_EQ(cuda::cubin_problem(fake_cubin("x"), "sm_90a"), "");
  EXPECT_EQ(cuda::cubin_problem(fake_cubin("x", 80), "sm_90a"), "its code is for sm_80, not sm_90a");
  EXPECT_EQ(cuda::cubin_problem("ELF", "sm_90a"), "it is shorter than an ELF header");
  // As toolkits 12 write it.
  std::string older = fake_cubin("x");
  older[EI_ABIVERSION] = 7;
  const unsigned flags = 0x5a0d5a;
  std::memcpy(&older[offsetof(Elf64_Ehdr, e_flags)], &flags, sizeof flags);
  EXPECT_EQ(cuda::cubin_problem(older, "sm_90a"), "");
  EXPECT_EQ(cuda::cubin_problem(older, "sm_100a"), "its code is for sm_90, not sm_100a");
  older[EI_ABIVERSION] = 9;
  EXPECT_EQ(cuda::cubin_problem(older, "sm_100a"), "") << "an unknown form is not judged";
  older[offsetof(Elf64_Ehdr, e_machine)] = EM_X86_64;
  EXPECT_EQ(cuda::cubin_problem(older, "sm_90a"), "it is no code of a GPU");
}

}  // namespace
}  // namespace coda::testing_support
