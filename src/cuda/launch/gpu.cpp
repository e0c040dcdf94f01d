#include "cuda/launch/gpu.h"

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "core/check.h"
#include "cuda/compile/cache.h"
#include "cuda/compile/nvrtc.h"

namespace coda::cuda {
namespace {

// Both grow only, so that references stay good; the fake driver of tests has its own.
struct State {
  std::mutex mutex;
  std::map<int, Gpu> gpus;
  std::map<std::pair<int, std::string>, LoadedKernel> kernels;
};

State& state() {
  static std::map<int, State> states;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return states[driver_number()];
}

int attribute(const DriverApi& api, int which, CudaDevice device) {
  int value = 0;
  check(api.device_attribute(&value, which, device), "cuda", concat("read attribute ", which, " of cuda:", device));
  return value;
}

Gpu open_gpu(int index) {
  const DriverApi& api = driver();
  Gpu gpu{.index = index};
  CudaDevice device = 0;
  check(api.device_get(&device, index), "cuda", concat("open cuda:", index));
  std::array<char, 128> name{};
  check(api.device_name(name.data(), static_cast<int>(name.size()) - 1, device), "cuda", concat("name cuda:", index));
  gpu.name = name.data();
  gpu.major = attribute(api, kComputeMajor, device);
  gpu.minor = attribute(api, kComputeMinor, device);
  gpu.multiprocessors = attribute(api, kMultiprocessorCount, device);
  gpu.l2_bytes = static_cast<std::size_t>(attribute(api, kL2Bytes, device));
  gpu.arch = find_arch(gpu.major, gpu.minor);
  check(api.context_retain(&gpu.context, device), "cuda", concat("make a context on cuda:", index));
  return gpu;
}

LoadedKernel load(const Gpu& gpu, const KernelRequest& request, const Cubin& cubin, std::string_view call) {
  const DriverApi& api = driver();
  LoadedKernel kernel{.name = request.name, .shared_bytes = request.shared_bytes};
  const auto doing = [&](std::string_view act) {
    return concat(act, " kernel ", request.name, " on cuda:", gpu.index, " (", gpu.name, ")");
  };
  Module module = nullptr;
  if (const Result result = api.module_load(&module, cubin.image.data()); result != 0) {
    const auto mismatch = nvrtc_mismatch();
    REQUIRE(NotImplementedError, !mismatch, call, ": could not ", doing("load"), ": ", *mismatch);
    check(result, call, doing("load"));
  }
  check(api.module_function(&kernel.function, module, kernel_symbol(request.name).c_str()), call, doing("find"));
  check(api.function_set(kernel.function, kMaxDynamicShared, request.shared_bytes), call,
        doing(concat("give ", request.shared_bytes, " bytes of shared memory to")));
  LaunchAttribute cluster{.id = kClusterDimension};
  cluster.value.cluster = {static_cast<unsigned>(request.cluster_size), 1, 1};
  const LaunchConfig config{.grid_x = static_cast<unsigned>(request.cluster_size),
                            .block_x = static_cast<unsigned>(request.threads),
                            .shared_bytes = static_cast<unsigned>(request.shared_bytes),
                            .attributes = &cluster,
                            .attribute_count = 1};
  check(api.max_clusters(&kernel.active_clusters, kernel.function, &config), call, doing("fit"));
  REQUIRE(DeviceError, kernel.active_clusters > 0, call, ": could not ", doing("fit"), ": no cluster of ",
          request.cluster_size, " blocks with ", request.shared_bytes,
          " bytes of shared memory each can run there: free the GPU of what shares it");
  return kernel;
}

}  // namespace

bool is_capturing(Stream stream) {
  int status = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
  return driver().stream_capturing(stream, &status) == 0 && status != 0;
}

int gpu_count() {
  int count = 0;
  return !driver_problem() && driver().device_count(&count) == 0 ? count : 0;
}

const Gpu& gpu(int index) {
  State& known = state();
  const std::lock_guard lock(known.mutex);
  const auto found = known.gpus.find(index);
  if (found != known.gpus.end()) return found->second;
  int count = 0;
  check(driver().device_count(&count), "cuda", "count the GPUs");
  REQUIRE(ValueError, index >= 0 && index < count, "cuda: got device cuda:", index,
          ", expected cuda:0 to cuda:", count - 1, ": choose one of them, or let CUDA_VISIBLE_DEVICES show it");
  return known.gpus.emplace(index, open_gpu(index)).first->second;
}

std::optional<std::string> nvrtc_mismatch() {
  int driver_cuda = 0;
  check(driver().driver_version(&driver_cuda), "cuda", "read the driver's version");
  const int supported = driver_cuda / 1000, compiler = std::atoi(nvrtc_version().c_str());
  if (compiler <= supported) return {};
  return concat("NVRTC ", nvrtc_version(), " makes kernels for drivers of CUDA ", compiler,
                ", and this one is for CUDA ", supported,
                ": update the NVIDIA driver, or set CODA_NVRTC to the file of an NVRTC ", supported);
}

CurrentGpu::CurrentGpu(const Gpu& gpu) {
  check(driver().context_push(gpu.context), "cuda", concat("make cuda:", gpu.index, " current"));
}

CurrentGpu::~CurrentGpu() {
  Context previous = nullptr;
  driver().context_pop(&previous);
}

const LoadedKernel& load_kernel(const Gpu& gpu, const KernelRequest& request, Stream stream, std::string_view call) {
  State& known = state();
  const std::pair key{gpu.index, request.text};
  {
    const std::lock_guard lock(known.mutex);
    const auto found = known.kernels.find(key);
    if (found != known.kernels.end()) return found->second;
  }
  const CurrentGpu current(gpu);
  REQUIRE(DeviceError, !is_capturing(stream), call, ": kernel ", request.name, " is not loaded on cuda:", gpu.index,
          " and the stream is being captured, expected a plan made before the capture: run the call once, or make its "
          "plan, before capturing");
  // Compiling takes seconds and others may compile meanwhile; loading takes none, and only the first one loads.
  const auto cubin = compiled({request.name, request.text, std::string(gpu.arch->name)});
  const std::lock_guard lock(known.mutex);
  const auto found = known.kernels.find(key);
  if (found != known.kernels.end()) return found->second;
  return known.kernels.emplace(key, load(gpu, request, *cubin, call)).first->second;
}

std::optional<std::string> arch_refusal(const Gpu& gpu) {
  if (gpu.arch != nullptr) return {};
  return concat("cuda:", gpu.index, " is a ", gpu.name, " of compute capability ", gpu.major, ".", gpu.minor,
                ", expected 9.0 (H100, H200, GH200)");
}

}  // namespace coda::cuda
