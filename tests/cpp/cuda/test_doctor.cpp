// diagnose: what it says of machines without a driver, with an old one, without a GPU, with another, with a good one.
#include <gmock/gmock.h>

#include "coda/cuda.h"
#include "cuda/cache_support.h"
#include "cuda/fake_gpu.h"

namespace coda::testing_support {
namespace {

using cuda::DriverForTesting;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kUseHopper = "use a Hopper GPU (H100, H200, GH200); everything runs on the CPU meanwhile";

class Doctor : public testing::Test {
 protected:
  Doctor() {
    fake_gpu() = {};
    cuda::set_process_cache_for_testing(
        std::make_unique<cuda::KernelCache>(settings_of(folder_.path() + "/cache"), compiler_.compiler()));
  }
  ~Doctor() override { cuda::set_process_cache_for_testing(nullptr); }

  // The rows, which every machine has in this order; without GPUs their row is left out.
  static std::vector<std::string> names(const std::vector<Diagnosis>& rows) {
    std::vector<std::string> all;
    for (const Diagnosis& row : rows) {
      all.push_back(row.what);
      EXPECT_NE(row.good, !row.cure.empty()) << row.what << ": " << row.cure;
      EXPECT_NE(row.found, "") << row.what;
    }
    return all;
  }

  static Diagnosis find(const std::vector<Diagnosis>& rows, const std::string& what) {
    for (const Diagnosis& row : rows)
      if (row.what == what) return row;
    ADD_FAILURE() << "no row " << what;
    return {};
  }

  TemporaryFolder folder_;
  FakeCompiler compiler_;
};

TEST_F(Doctor, NamesAMissingDriver) {
  const DriverForTesting none(nullptr);
  const std::vector<Diagnosis> rows = diagnose();
  EXPECT_EQ(names(rows), (std::vector<std::string>{"NVIDIA driver", "NVRTC", "kernels", "kernel cache"}));
  EXPECT_FALSE(rows[0].good);
  EXPECT_EQ(rows[0].found, "no NVIDIA driver is installed (libcuda.so.1 was not found), expected one");
  EXPECT_EQ(rows[0].cure, "install it, or use the CPU");
}

TEST_F(Doctor, NamesAnOldDriver) {
  fake_gpu().driver_version = 11040;
  const cuda::DriverApi api = fake_driver();
  const DriverForTesting old(&api);
  const Diagnosis row = find(diagnose(), "NVIDIA driver");
  EXPECT_FALSE(row.good);
  EXPECT_EQ(row.found, "the NVIDIA driver supports CUDA 11.4, expected 12.3 or newer");
  EXPECT_EQ(row.cure, "update the driver");
}

TEST_F(Doctor, NamesAMissingGpu) {
  fake_gpu().count = 0;
  const cuda::DriverApi api = fake_driver();
  const DriverForTesting empty(&api);
  const std::vector<Diagnosis> rows = diagnose();
  EXPECT_EQ(names(rows), (std::vector<std::string>{"NVIDIA driver", "NVRTC", "kernels", "kernel cache"}));
  EXPECT_FALSE(rows[0].good);
  EXPECT_EQ(rows[0].found, "the NVIDIA driver sees no GPU, expected one");
  EXPECT_EQ(rows[0].cure, "check nvidia-smi and CUDA_VISIBLE_DEVICES");
}

TEST_F(Doctor, NamesAnotherArchitecture) {
  fake_gpu() = {.name = "NVIDIA A100", .major = 8};
  const cuda::DriverApi api = fake_driver();
  const DriverForTesting ampere(&api);
  const std::vector<Diagnosis> rows = diagnose();
  EXPECT_EQ(names(rows), (std::vector<std::string>{"NVIDIA driver", "GPU cuda:0", "NVRTC", "kernels", "kernel cache"}));
  EXPECT_TRUE(rows[0].good);
  EXPECT_EQ(rows[0].found, "supports CUDA 99.0");
  EXPECT_FALSE(rows[1].good);
  EXPECT_EQ(rows[1].found, "NVIDIA A100, compute capability 8.0");
  EXPECT_EQ(rows[1].cure, kUseHopper);
  EXPECT_EQ(fake_gpu().calls["module_load"], 0) << "nothing of ours runs there";
}

TEST_F(Doctor, FindsEverythingGood) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC";
  fake_gpu().count = 2;
  const cuda::DriverApi api = fake_driver();
  const DriverForTesting hopper(&api);
  const std::vector<Diagnosis> rows = diagnose();
  EXPECT_EQ(names(rows), (std::vector<std::string>{"NVIDIA driver", "GPU cuda:0", "GPU cuda:1", "NVRTC", "kernels",
                                                   "kernel cache"}));
  for (const Diagnosis& row : rows) EXPECT_TRUE(row.good) << row.what << ": " << row.found;
  EXPECT_EQ(rows[2].found, "NVIDIA H200, compute capability 9.0");
  EXPECT_EQ(rows[3].found, cuda::nvrtc_version() + ", " + cuda::nvrtc_path());
  EXPECT_EQ(rows[4].found, "compiled one for sm_90a, loaded it on cuda:0");
  EXPECT_EQ(rows[5].found, folder_.path() + "/cache");
  EXPECT_EQ(fake_gpu().calls["module_load"], 1);
  EXPECT_EQ(*compiler_.count, 0) << "the kernel is not compiled through the cache";
}

TEST_F(Doctor, NamesACompilerNewerThanTheDriver) {
  if (!has_nvrtc() || std::stoi(cuda::nvrtc_version()) < 13) GTEST_SKIP() << "no NVRTC newer than the oldest driver";
  fake_gpu().driver_version = 12090;
  const cuda::DriverApi api = fake_driver();
  const DriverForTesting hopper(&api);
  const Diagnosis row = find(diagnose(), "NVRTC");
  EXPECT_FALSE(row.good);
  EXPECT_THAT(row.found, StartsWith("NVRTC " + cuda::nvrtc_version() + " makes kernels for drivers of CUDA "));
  EXPECT_THAT(row.found, HasSubstr(", and this one is for CUDA 12"));
  EXPECT_EQ(row.cure, "update the NVIDIA driver, or set CODA_NVRTC to the file of an NVRTC 12");
}

TEST_F(Doctor, NamesAKernelThatCannotBeLoaded) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC";
  fake_gpu().fails["module_load"] = 209;
  const cuda::DriverApi api = fake_driver();
  const DriverForTesting hopper(&api);
  const Diagnosis row = find(diagnose(), "kernels");
  EXPECT_FALSE(row.good);
  EXPECT_EQ(row.found, "could not load a kernel on cuda:0: CUDA_ERROR_FAKE (209), it only pretends");
}

TEST_F(Doctor, NamesACacheThatIsNotUsed) {
  fs::create_directory(folder_.path() + "/cache");
  fs::permissions(folder_.path() + "/cache", fs::perms::all);
  const DriverForTesting none(nullptr);
  const Diagnosis row = find(diagnose(), "kernel cache");
  EXPECT_FALSE(row.good);
  EXPECT_THAT(row.found, HasSubstr("/cache: others can write into it"));
  EXPECT_EQ(row.cure, "set CODA_CACHE_DIR to a directory that only you can write");
}

TEST_F(Doctor, TakesACacheThatIsOnlyRead) {
  cuda::set_process_cache_for_testing(std::make_unique<cuda::KernelCache>(
      settings_of(folder_.path() + "/cache", cuda::CacheMode::ReadOnly), compiler_.compiler()));
  const DriverForTesting none(nullptr);
  const Diagnosis row = find(diagnose(), "kernel cache");
  EXPECT_TRUE(row.good);
  EXPECT_EQ(row.found, folder_.path() + "/cache, only read");
}

}  // namespace
}  // namespace coda::testing_support
