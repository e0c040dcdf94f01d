// Every mistake src/cuda/compile refuses, and its text.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cuda/cache_support.h"
#include "cuda/compile/nvrtc_library.h"
#include "support/error_row.h"

namespace coda {
namespace {

using cuda::CacheMode;
using cuda::KernelCache;
using testing_support::expect_errors;
using testing_support::FakeCompiler;
using testing_support::settings_of;
using testing_support::TemporaryFolder;

TEST(CudaCompileErrors, HaveTheirText) {
  const TemporaryFolder folder;
  const std::string& path = folder.path();
  folder.write("libnvrtc.so.13", "no library");
  std::filesystem::create_directory(path + "/open");
  ::chmod((path + "/open").c_str(), 0777);
  const auto cache = [](const std::string& directory, CacheMode mode) {
    return KernelCache(settings_of(directory, mode), FakeCompiler{}.compiler());
  };
  expect_errors({
      {typeid(NotImplementedError),
       "cuda: no NVRTC, the compiler of kernels, was found: looked for libnvrtc.so.1, libnvrtc.so.2 where the loader "
       "looks and in /a, /b: pip install nvidia-cuda-nvrtc, install the CUDA toolkit, or set CODA_NVRTC to the library "
       "file",
       [] { cuda::open_nvrtc({"", {"libnvrtc.so.1", "libnvrtc.so.2"}, {"/a", "/b"}}); }},
      {typeid(NotImplementedError),
       "cuda: no NVRTC, the compiler of kernels, was found: looked for libm.so.6 where the loader looks and in /a; not "
       "usable: libm.so.6 (it has no function nvrtcVersion): pip install nvidia-cuda-nvrtc, install the CUDA toolkit, "
       "or set CODA_NVRTC to the library file",
       [] { cuda::open_nvrtc({"", {"libm.so.6"}, {"/a"}}); }},
      {typeid(ValueError),
       "environment: CODA_NVRTC is '" + path + "/libnvrtc.so.13', no usable NVRTC (" + path +
           "/libnvrtc.so.13: file too short): set it to the file of an NVRTC library of version 12.0 or newer, or "
           "unset "
           "it",
       [&] { cuda::open_nvrtc({path + "/libnvrtc.so.13", {}, {}}); }},
      {typeid(ValueError),
       "environment: CODA_NVRTC is 'libm.so.6', no usable NVRTC (it has no function nvrtcVersion): set it to the file "
       "of an NVRTC library of version 12.0 or newer, or unset it",
       [] { cuda::open_nvrtc({"libm.so.6", {}, {}}); }},
      {typeid(FileError),
       "clear_cache: CODA_CACHE is ro, so '" + path + "' is left alone: unset CODA_CACHE to clear it",
       [&] { cache(path, CacheMode::ReadOnly).clear(); }},
      {typeid(FileError),
       "clear_cache: directory '" + path +
           "/open' is left alone: others can write into it (mode 777): set CODA_CACHE_DIR to a directory that only you "
           "can write",
       [&] { cache(path + "/open", CacheMode::ReadWrite).clear(); }},
      {typeid(InternalError),
       "internal error, please report it (is_name(source.name)): cuda: kernel name '../x', expected letters, digits "
       "and "
       "underscores",
       [&] { cache(path, CacheMode::ReadWrite).get({"../x", "", "sm_90a"}); }},
  });
}

TEST(CudaCompileErrors, OfNvrtcHaveTheirText) {
  try {
    cuda::nvrtc();
  } catch (const NotImplementedError& error) {
    GTEST_SKIP() << error.what();
  }
  try {
    cuda::compile("k", "error", "sm_90a");
    ADD_FAILURE() << "no error";
  } catch (const InternalError& error) {
    const std::string start =
        "internal error, please report it (result == 0): cuda: kernel 'k' does not compile for "
        "sm_90a with NVRTC " +
        cuda::nvrtc_version() + " (NVRTC_ERROR_COMPILATION):\nk.cu(1): error: ";
    EXPECT_EQ(std::string(error.what()).substr(0, start.size()), start);
  }
  try {
    cuda::compile("k", "", "sm_35");
    ADD_FAILURE() << "no error";
  } catch (const NotImplementedError& error) {
    const std::string start = "cuda: NVRTC " + cuda::nvrtc_version() + " (" + cuda::nvrtc_path() +
                              ") cannot compile for sm_35, expected one of ";
    EXPECT_EQ(std::string(error.what()).substr(0, start.size()), start);
  }
}

}  // namespace
}  // namespace coda
