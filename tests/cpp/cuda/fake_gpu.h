// A driver that only pretends to have GPUs, and remembers what it was asked for.
#pragma once

#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda/launch/driver.h"

namespace coda::testing_support {

/// What a tensor map was made of.
struct FakeMap {
  int type = 0;
  void* data = nullptr;
  std::uint64_t inner = 0, outer = 0, pitch = 0;  ///< pitch in bytes
  std::uint32_t box_inner = 0, box_outer = 0;
  int swizzle = 0;
};

struct FakeKernel {
  cuda::Context context = nullptr;  ///< current when it was loaded
  std::string text;                 ///< what follows the header of its image: FakeCompiler puts the text there
};

struct FakeLaunch {
  const FakeKernel* kernel = nullptr;
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
  unsigned grid = 0, block = 0, cluster = 0, shared_bytes = 0;
  std::string parameters;
};

struct FakeAllocation {
  cuda::DevicePointer pointer = 0;
  std::size_t bytes = 0;
  cuda::Stream stream = nullptr;
  bool freed = false;
  cuda::MemoryPool pool = nullptr;
};

/// What the fake driver says and what it was asked; one at a time, because its functions are plain ones.
struct FakeGpu {
  int driver_version = 99000;
  int count = 1;
  const char* name = "NVIDIA H200";
  int major = 9;
  int minor = 0;
  int active_clusters = -1;  ///< clusters that fit at once; −1: as many as 132 multiprocessors take
  std::set<cuda::Stream> capturing{};
  std::map<std::string, cuda::Result> fails{};  ///< what the call of a name returns instead of succeeding
  std::map<std::string, int> calls{};           ///< of each name, those that failed too
  std::vector<FakeLaunch> launches{};
  std::vector<FakeMap> maps{};
  std::vector<FakeAllocation> allocations{};
};

inline FakeGpu& fake_gpu() {
  static FakeGpu instance;
  return instance;
}

/// Contexts this thread has pushed and not popped.
inline std::vector<cuda::Context>& fake_contexts() {
  static thread_local std::vector<cuda::Context> contexts;
  return contexts;
}

inline cuda::Context fake_context(int device) { return reinterpret_cast<cuda::Context>(0x1000 + device); }

/// Notes a call and says what it returns; when that is 0, act does what the call is for. One at a time.
template <class Act>
cuda::Result fake_call(const char* name, Act act) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ++fake_gpu().calls[name];
  const auto failure = fake_gpu().fails.find(name);
  if (failure != fake_gpu().fails.end() && failure->second != 0) return failure->second;
  act(fake_gpu());
  return 0;
}

inline cuda::Context current_context() { return fake_contexts().empty() ? nullptr : fake_contexts().back(); }

/// Bytes of the parameter a kernel's text declares: what it asserts, or those of device/copy.cuh.
inline std::size_t fake_parameter_bytes(const std::string& text) {
  const std::string assertion = "static_assert(sizeof(KernelParams) == ";
  const std::size_t at = text.find(assertion);
  if (at == std::string::npos) return text.find("CopyParams") != std::string::npos ? 48 : 0;
  return static_cast<std::size_t>(std::stoul(text.substr(at + assertion.size())));
}

/// The number a map of this driver holds, which is its place in FakeGpu::maps; −1 where none was encoded.
inline int fake_map_number(const char* bytes) {
  int words[2];
  std::memcpy(words, bytes, sizeof words);
  return words[0] == 0x70616d ? words[1] : -1;
}

inline void fake_modules(cuda::DriverApi& api) {
  api.module_load = [](cuda::Module* module, const void* image) {
    return fake_call("module_load", [&](FakeGpu&) {
      static std::deque<FakeKernel> kernels;  // what is loaded outlives the tests
      *module = reinterpret_cast<cuda::Module>(
          &kernels.emplace_back(FakeKernel{current_context(), static_cast<const char*>(image) + 64}));
    });
  };
  api.module_function = [](cuda::Function* function, cuda::Module module, const char*) {
    return fake_call("module_function", [&](FakeGpu&) { *function = reinterpret_cast<cuda::Function>(module); });
  };
  api.function_set = [](cuda::Function, int, int) { return fake_call("function_set", [](FakeGpu&) {}); };
  api.max_clusters = [](int* count, cuda::Function, const cuda::LaunchConfig* config) {
    return fake_call("max_clusters", [&](FakeGpu& gpu) {
      const int size = static_cast<int>(config->attributes[0].value.cluster.x);
      *count = gpu.active_clusters >= 0 ? gpu.active_clusters : 132 / size;
    });
  };
}

inline void fake_work(cuda::DriverApi& api) {
  api.launch = [](const cuda::LaunchConfig* config, cuda::Function function, void** arguments, void**) {
    return fake_call("launch", [&](FakeGpu& gpu) {
      const auto* kernel = reinterpret_cast<const FakeKernel*>(function);
      const unsigned cluster = config->attribute_count > 0 ? config->attributes[0].value.cluster.x : 0;
      gpu.launches.push_back({kernel, current_context(), config->stream, config->grid_x, config->block_x, cluster,
                              config->shared_bytes,
                              std::string(static_cast<const char*>(arguments[0]), fake_parameter_bytes(kernel->text))});
    });
  };
  api.encode_tiled = [](cuda::TensorMap* map, int type, std::uint32_t, void* data, const std::uint64_t* extents,
                        const std::uint64_t* pitch, const std::uint32_t* box, const std::uint32_t*, int, int swizzle,
                        int, int) {
    return fake_call("encode_tiled", [&](FakeGpu& gpu) {
      const int words[2] = {0x70616d, static_cast<int>(gpu.maps.size())};
      std::memcpy(map->opaque, words, sizeof words);
      gpu.maps.push_back({type, data, extents[0], extents[1], pitch[0], box[0], box[1], swizzle});
    });
  };
  api.alloc_async = [](cuda::DevicePointer* pointer, std::size_t bytes, cuda::Stream stream) {
    return fake_call("alloc_async", [&](FakeGpu& gpu) {
      *pointer = 0x700000000000 + (gpu.allocations.size() << 32);
      gpu.allocations.push_back({*pointer, bytes, stream});
    });
  };
  api.free_async = [](cuda::DevicePointer pointer, cuda::Stream stream) {
    return fake_call("free_async", [&](FakeGpu& gpu) {
      for (FakeAllocation& known : gpu.allocations)
        if (known.pointer == pointer && known.stream == stream) known.freed = true;
    });
  };
  api.stream_capturing = [](cuda::Stream stream, int* status) {
    return fake_call("stream_capturing", [&](FakeGpu& gpu) { *status = gpu.capturing.contains(stream) ? 1 : 0; });
  };
  api.memory_info = [](std::size_t* free, std::size_t* total) {
    return *free = std::size_t{5} << 20, *total = std::size_t{141} << 30, 0;
  };
}

/// The functions that looking at a GPU, loading a kernel on it and running it need; the others are missing, so that
/// calling one of them (alloc, stream_synchronize) ends the test.
inline cuda::DriverApi fake_driver() {
  cuda::DriverApi api;
  api.init = [](unsigned) { return fake_gpu().count > 0 ? 0 : cuda::kNoDevice; };
  api.driver_version = [](int* version) { return *version = fake_gpu().driver_version, 0; };
  api.error_name = [](cuda::Result, const char** name) { return *name = "CUDA_ERROR_FAKE", 0; };
  api.error_text = [](cuda::Result, const char** text) { return *text = "it only pretends", 0; };
  api.device_count = [](int* count) { return *count = fake_gpu().count, 0; };
  api.device_get = [](cuda::CudaDevice* device, int index) { return *device = index, 0; };
  api.device_name = [](char* name, int size, cuda::CudaDevice) {
    std::snprintf(name, static_cast<std::size_t>(size), "%s", fake_gpu().name);
    return 0;
  };
  api.device_attribute = [](int* value, int attribute, cuda::CudaDevice) {
    const FakeGpu& gpu = fake_gpu();
    *value = attribute == cuda::kComputeMajor ? gpu.major : attribute == cuda::kComputeMinor ? gpu.minor : 132;
    return 0;
  };
  api.context_retain = [](cuda::Context* context, cuda::CudaDevice device) {
    return fake_call("context_retain", [&](FakeGpu&) { *context = fake_context(device); });
  };
  api.context_push = [](cuda::Context context) {
    return fake_call("context_push", [&](FakeGpu&) { fake_contexts().push_back(context); });
  };
  api.context_pop = [](cuda::Context* context) {
    return fake_call("context_pop", [&](FakeGpu&) {
      *context = current_context();
      fake_contexts().pop_back();
    });
  };
  fake_modules(api);
  fake_work(api);
  return api;
}

}  // namespace coda::testing_support
