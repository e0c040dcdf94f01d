#include "cuda/launch/memory.h"

#include <map>
#include <mutex>

#include "core/check.h"
#include "cuda/launch/gpu.h"

namespace coda::cuda {
namespace {

// Bytes a pool keeps for the next allocation when a stream is waited for; what is beyond goes back to the driver, and
// to whoever else uses the GPU. The device's own pool keeps none, so that each token generated would allocate anew.
constexpr std::uint64_t kKept = std::uint64_t{1} << 30;

DevicePointer address(const void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

MemoryPool make_pool(const Gpu& gpu, std::string_view call) {
  MemoryPool pool = nullptr;
  const PoolProperties properties{.location_id = gpu.index};
  check(driver().pool_create(&pool, &properties), call, concat("make a memory pool on cuda:", gpu.index));
  std::uint64_t kept = kKept;
  check(driver().pool_set(pool, kPoolReleaseThreshold, &kept), call, concat("set the memory pool of cuda:", gpu.index));
  return pool;
}

// Made when first asked for; lives as long as the process.
MemoryPool pool_of(const Gpu& gpu, std::string_view call) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, MemoryPool> pools;
  const std::lock_guard lock(mutex);
  MemoryPool& pool = pools[{driver_number(), gpu.index}];
  if (pool == nullptr) pool = make_pool(gpu, call);
  return pool;
}

void release(void* memory, int index, Stream stream) noexcept {
  try {
    const CurrentGpu current(gpu(index));
    driver().free_async(address(memory), stream);
  } catch (const Error&) {
    // The GPU failed, or the process is ending: its memory goes with the context.
  }
}

class GpuMemory final : public DeviceMemory {
 public:
  std::shared_ptr<void> allocate(std::string_view call, std::size_t bytes, Device device, void* stream) const override {
    const Gpu& gpu = cuda::gpu(device.index);
    const CurrentGpu current(gpu);
    DevicePointer memory = 0;
    check(driver().alloc_from_pool(&memory, bytes, pool_of(gpu, call), static_cast<Stream>(stream)), call,
          concat("allocate ", bytes, " bytes on cuda:", gpu.index));
    return {reinterpret_cast<void*>(memory),
            [index = gpu.index, stream](void* pointer) { release(pointer, index, static_cast<Stream>(stream)); }};
  }

  void copy(std::string_view call, const TensorView& from, const TensorView& to, void* stream) const override {
    const bool from_host = from.device().kind == DeviceKind::Cpu, to_host = to.device().kind == DeviceKind::Cpu;
    const Gpu& gpu = cuda::gpu(from_host ? to.device().index : from.device().index);
    const CurrentGpu current(gpu);
    const auto on = static_cast<Stream>(stream);
    const std::size_t bytes = static_cast<std::size_t>(from.size()) * size_of(from.dtype());
    const DriverApi& api = driver();
    const Result queued = from_host ? api.copy_to_device_async(address(to.data()), from.data(), bytes, on)
                          : to_host ? api.copy_to_host_async(to.data(), address(from.data()), bytes, on)
                                    : api.copy_within_async(address(to.data()), address(from.data()), bytes, on);
    const std::string what =
        concat("copy ", bytes, " bytes from ", device_text(from.device()), " to ", device_text(to.device()));
    check(queued, call, what);
    if (from_host || to_host) check(api.stream_synchronize(on), call, what);
  }

  void wait(std::string_view call, Device device) const override {
    const CurrentGpu current(gpu(device.index));
    check(driver().context_synchronize(), call, concat("wait for cuda:", device.index));
  }
};

}  // namespace

const DeviceMemory& gpu_memory() {
  static const GpuMemory memory;
  return memory;
}

}  // namespace coda::cuda
