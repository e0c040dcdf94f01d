// A GPU that is this machine's CPU: kernels are compiled by the C++ compiler with plain C++ in PTX's place, and a
// launch runs them at once. Tensors "on the GPU" lie in host memory.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "cuda/cache_support.h"
#include "cuda/compile/device_files.h"
#include "cuda/fake_memory.h"
#include "schedule/records.h"
#include "support/temporary_folder.h"

namespace coda::testing_support {

/// Device files, with those of this folder's device/ in place of the ones that hold PTX.
inline void write_device_files(const std::string& folder) {
  fs::create_directories(folder + "/sm90");
  for (const cuda::DeviceFile& file : cuda::device_files())
    if (!file.path.starts_with("sm90/")) std::ofstream(folder + "/" + std::string(file.path)) << file.text;
  const fs::path emulated = fs::path(CODA_SOURCE_DIR) / "tests/cpp/emulated/device";
  // Each is included by what stands in its place.
  for (const std::string name : {"elementwise", "attention", "attention_backward", "copy", "gather"}) {
    fs::rename(folder + "/" + name + ".cuh", folder + "/" + name + "_gpu.cuh");
    fs::copy_file(emulated / (name + ".cuh"), folder + "/" + name + ".cuh");
  }
  for (const char* name : {"ptx.cuh", "fibers.cuh", "sm90/gemm.cuh"})
    fs::copy_file(emulated / name, fs::path(folder) / name, fs::copy_options::overwrite_existing);
}

/// Compiles kernels for the CPU; a "cubin" is a header and the path of a shared library.
inline cuda::Compiler emulating_compiler(const std::string& folder) {
  return {[folder](const cuda::KernelSource& source) {
            static std::atomic<int> number = 0;
            const std::string base = folder + "/" + source.name + "_" + std::to_string(++number);
            std::ofstream(base + ".cpp") << "#define CODA_KERNEL coda_kernel\n"
                                         << source.text
                                         << "\nextern \"C\" void coda_emulated(const void* p) {\n"
                                            "  coda_kernel(*static_cast<const coda::KernelParams*>(p));\n}\n";
            // Without -fno-gnu-unique all libraries would share the static data of functions of one name.
            const std::string command = "\"" CODA_CXX "\" -std=c++20 -O1 -w -fPIC -fno-gnu-unique -shared -I" + folder +
                                        " " + base + ".cpp -o " + base + ".so 2>" + base + ".log";
            if (std::system(command.c_str()) != 0) {
              std::ifstream log(base + ".log");
              throw InternalError(std::string(std::istreambuf_iterator<char>(log), {}).substr(0, 4000));
            }
            return cuda::Cubin{fake_cubin(base + ".so"), ""};
          },
          [] { return std::string("emulated"); }};
}

/// What device/sm90/gemm.cuh reads as MapContent.
struct EmulatedMap {
  void* data;
  std::uint64_t inner, outer, pitch;
  int type;
};

inline cuda::DevicePointer emulated_block(std::size_t bytes) {
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xff, bytes);
  return reinterpret_cast<cuda::DevicePointer>(memory);
}

/// Memory "of the GPU" is the host's, filled with NaN; work is done when it is queued.
inline void emulate_memory(cuda::DriverApi& api) {
  fake_memory(api);
  api.alloc_from_pool = [](cuda::DevicePointer* pointer, std::size_t bytes, cuda::MemoryPool, cuda::Stream) {
    *pointer = emulated_block(bytes);
    return 0;
  };
  api.alloc_async = [](cuda::DevicePointer* pointer, std::size_t bytes, cuda::Stream) {
    *pointer = emulated_block(bytes);
    return 0;
  };
  api.free_async = [](cuda::DevicePointer pointer, cuda::Stream) {
    std::free(reinterpret_cast<void*>(pointer));
    return 0;
  };
  api.copy_to_device_async = [](cuda::DevicePointer to, const void* from, std::size_t bytes, cuda::Stream) {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return 0;
  };
  api.copy_to_host_async = [](void* to, cuda::DevicePointer from, std::size_t bytes, cuda::Stream) {
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return 0;
  };
  api.copy_within_async = [](cuda::DevicePointer to, cuda::DevicePointer from, std::size_t bytes, cuda::Stream) {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return 0;
  };
}

/// Kernels launched so far.
inline std::atomic<int> emulated_launches = 0;

inline cuda::DriverApi emulated_driver() {
  cuda::DriverApi api = fake_driver();
  emulate_memory(api);
  api.encode_tiled = [](cuda::TensorMap* map, int type, std::uint32_t, void* data, const std::uint64_t* extents,
                        const std::uint64_t* pitch, const std::uint32_t*, const std::uint32_t*, int, int, int, int) {
    const EmulatedMap content{data, extents[0], extents[1], pitch[0], type};
    std::memcpy(map->opaque, &content, sizeof content);
    return 0;
  };
  api.module_load = [](cuda::Module* module, const void* image) {
    void* library = dlopen(static_cast<const char*>(image) + 64, RTLD_NOW | RTLD_LOCAL);
    *module = static_cast<cuda::Module>(library);
    return library != nullptr ? 0 : 1;
  };
  api.module_function = [](cuda::Function* function, cuda::Module module, const char*) {
    *function = static_cast<cuda::Function>(dlsym(module, "coda_emulated"));
    return *function != nullptr ? 0 : 1;
  };
  api.launch = [](const cuda::LaunchConfig*, cuda::Function function, void** arguments, void**) {
    ++emulated_launches;
    reinterpret_cast<void (*)(const void*)>(function)(arguments[0]);
    return 0;
  };
  return api;
}

class EmulatedTest : public testing::Test {
 protected:
  EmulatedTest() : records_("", "off") {
    fake_gpu() = {};
    api_ = emulated_driver();
    driver_ = std::make_unique<cuda::DriverForTesting>(&api_);
    write_device_files(folder_.path());
    cuda::set_process_cache_for_testing(
        std::make_unique<cuda::KernelCache>(settings_of("", cuda::CacheMode::Off), emulating_compiler(folder_.path())));
  }
  ~EmulatedTest() override { cuda::set_process_cache_for_testing(nullptr); }

 private:
  TemporaryFolder folder_;
  RecordsForTesting records_;
  cuda::DriverApi api_;
  std::unique_ptr<cuda::DriverForTesting> driver_;
};

}  // namespace coda::testing_support
