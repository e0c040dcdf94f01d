// The GPUs of this machine, and the kernels loaded on them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coda/schedule.h"
#include "core/check.h"
#include "cuda/launch/driver.h"

namespace coda::cuda {

struct Gpu {
  int index = 0;
  std::string name{};        ///< "NVIDIA H200"
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::size_t l2_bytes = 0;
  const Arch* arch = nullptr;  ///< null: coda has no kernels for it
  Context context = nullptr;   ///< its primary context, the one PyTorch and the runtime use
};

/// Number of GPUs; 0 without a driver.
int gpu_count();

/// Opened once. Errors: ValueError for an index no GPU has, NotImplementedError without a driver, DeviceError.
const Gpu& gpu(int index);

/// Makes a GPU's context current while it lives.
class CurrentGpu {
 public:
  explicit CurrentGpu(const Gpu& gpu);
  ~CurrentGpu();
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;
};

/// A kernel on one GPU; lives as long as the process.
struct LoadedKernel {
  std::string name{};
  Function function = nullptr;
  int shared_bytes = 0;
  int active_clusters = 0;  ///< clusters of `cluster_size` blocks that run at once
};

struct KernelRequest {
  std::string name{};
  std::string text{};
  int threads = 0;
  int shared_bytes = 0;
  int cluster_size = 1;
};

/// True while a CUDA graph captures what is queued on the stream.
bool is_capturing(Stream stream);

/// Why the driver cannot load what the NVRTC in use compiles, with the cure, or nothing. Within a major version of CUDA
/// a driver loads the kernels of newer compilers. Errors: as nvrtc_version and driver.
std::optional<std::string> nvrtc_mismatch();

/// Compiles (or finds compiled) and loads a kernel, once for each GPU and text. `capturing` is the stream the caller
/// works on. Errors: DeviceError when that stream is being captured and the kernel is not loaded yet;
/// NotImplementedError for a driver older than NVRTC; as compile.
const LoadedKernel& load_kernel(const Gpu& gpu, const KernelRequest& request, Stream stream, std::string_view call);

/// Why kernels do not run on the GPU, or nothing.
std::optional<std::string> arch_refusal(const Gpu& gpu);

/// Queues a kernel of one parameter. `purpose` is asked, for an error alone, what to say behind the threads of a block:
/// " for 3 rows". Errors: as check.
template <class Purpose>
void launch_kernel(const Gpu& gpu, const LoadedKernel& kernel, const LaunchConfig& config, void* params,
                   std::string_view call, Purpose purpose) {
  void* arguments[] = {params};
  const Result result = driver().launch(&config, kernel.function, arguments, nullptr);
  if (result != 0)
    check(result, call,
          concat("launch kernel ", kernel.name, " on cuda:", gpu.index, " with ", config.grid_x, " blocks of ",
                 config.block_x, " threads", purpose()));
}

}  // namespace coda::cuda
