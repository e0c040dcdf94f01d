// The CUDA driver, opened at run time: its types and the functions used, declared here so that no toolkit is needed to
// build. Names and values are those of cuda.h, whose ABI is stable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace coda::cuda {

using Result = int;  ///< CUresult: 0 is success
using CudaDevice = int;
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using MemoryPool = struct CUmemPoolHandle_st*;
using DevicePointer = unsigned long long;

struct alignas(64) TensorMap {
  char opaque[128];
};

struct LaunchAttribute {
  int id = 0;
  char padding[4] = {};
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
  } value = {};
};

/// CUmemPoolProps: memory of one device, not to be exported.
struct PoolProperties {
  int allocation_type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED
  int handle_types = 0;     // CU_MEM_HANDLE_TYPE_NONE
  int location_type = 1;    // CU_MEM_LOCATION_TYPE_DEVICE
  int location_id = 0;
  void* security_attributes = nullptr;
  std::size_t largest = 0;  // bytes; 0: all of the device
  unsigned char reserved[56] = {};
};

struct LaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

inline constexpr int kClusterDimension = 4;      // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
inline constexpr int kMaxDynamicShared = 8;      // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
inline constexpr int kMultiprocessorCount = 16;  // CU_DEVICE_ATTRIBUTE_…
inline constexpr int kComputeMajor = 75;
inline constexpr int kComputeMinor = 76;
inline constexpr int kL2Bytes = 38;
inline constexpr int kPoolReleaseThreshold = 4;  // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
inline constexpr Result kOutOfMemory = 2;        // CUDA_ERROR_OUT_OF_MEMORY
inline constexpr Result kNoDevice = 100;         // CUDA_ERROR_NO_DEVICE

// Field, symbol, parameters: one line a function.
#define CODA_DRIVER_FUNCTIONS(X)                                                                              \
  X(init, "cuInit", (unsigned))                                                                               \
  X(driver_version, "cuDriverGetVersion", (int*))                                                             \
  X(error_name, "cuGetErrorName", (Result, const char**))                                                     \
  X(error_text, "cuGetErrorString", (Result, const char**))                                                   \
  X(device_count, "cuDeviceGetCount", (int*))                                                                 \
  X(device_get, "cuDeviceGet", (CudaDevice*, int))                                                            \
  X(device_name, "cuDeviceGetName", (char*, int, CudaDevice))                                                 \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, CudaDevice))                                        \
  X(context_retain, "cuDevicePrimaryCtxRetain", (Context*, CudaDevice))                                       \
  X(context_push, "cuCtxPushCurrent_v2", (Context))                                                           \
  X(context_pop, "cuCtxPopCurrent_v2", (Context*))                                                            \
  X(module_load, "cuModuleLoadData", (Module*, const void*))                                                  \
  X(module_function, "cuModuleGetFunction", (Function*, Module, const char*))                                 \
  X(function_set, "cuFuncSetAttribute", (Function, int, int))                                                 \
  X(max_clusters, "cuOccupancyMaxActiveClusters", (int*, Function, const LaunchConfig*))                      \
  X(launch, "cuLaunchKernelEx", (const LaunchConfig*, Function, void**, void**))                              \
  X(encode_tiled, "cuTensorMapEncodeTiled",                                                                   \
    (TensorMap*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*, const std::uint32_t*, \
     const std::uint32_t*, int, int, int, int))                                                               \
  X(memory_info, "cuMemGetInfo_v2", (std::size_t*, std::size_t*))                                             \
  X(alloc, "cuMemAlloc_v2", (DevicePointer*, std::size_t))                                                    \
  X(free, "cuMemFree_v2", (DevicePointer))                                                                    \
  X(alloc_async, "cuMemAllocAsync", (DevicePointer*, std::size_t, Stream))                                    \
  X(free_async, "cuMemFreeAsync", (DevicePointer, Stream))                                                    \
  X(copy_to_device, "cuMemcpyHtoD_v2", (DevicePointer, const void*, std::size_t))                             \
  X(copy_to_host, "cuMemcpyDtoH_v2", (void*, DevicePointer, std::size_t))                                     \
  X(pool_create, "cuMemPoolCreate", (MemoryPool*, const PoolProperties*))                                     \
  X(pool_set, "cuMemPoolSetAttribute", (MemoryPool, int, void*))                                              \
  X(alloc_from_pool, "cuMemAllocFromPoolAsync", (DevicePointer*, std::size_t, MemoryPool, Stream))            \
  X(copy_to_device_async, "cuMemcpyHtoDAsync_v2", (DevicePointer, const void*, std::size_t, Stream))          \
  X(copy_to_host_async, "cuMemcpyDtoHAsync_v2", (void*, DevicePointer, std::size_t, Stream))                  \
  X(copy_within_async, "cuMemcpyDtoDAsync_v2", (DevicePointer, DevicePointer, std::size_t, Stream))           \
  X(context_synchronize, "cuCtxSynchronize", ())                                                              \
  X(fill_async, "cuMemsetD32Async", (DevicePointer, unsigned, std::size_t, Stream))                           \
  X(stream_capturing, "cuStreamIsCapturing", (Stream, int*))                                                  \
  X(stream_synchronize, "cuStreamSynchronize", (Stream))                                                      \
  X(event_create, "cuEventCreate", (Event*, unsigned))                                                        \
  X(event_record, "cuEventRecord", (Event, Stream))                                                           \
  X(event_synchronize, "cuEventSynchronize", (Event))                                                         \
  X(event_elapsed, "cuEventElapsedTime", (float*, Event, Event))                                              \
  X(event_destroy, "cuEventDestroy_v2", (Event))

struct DriverApi {
#define CODA_FIELD(field, symbol, parameters) Result(*field) parameters = nullptr;
  CODA_DRIVER_FUNCTIONS(CODA_FIELD)
#undef CODA_FIELD
};

/// The driver's functions, initialised. Errors: NotImplementedError when there is no driver, it is too old or there is
/// no GPU, with the cure.
const DriverApi& driver();

/// Why driver() would throw, or nothing.
std::optional<std::string> driver_problem();

/// 0 for the machine's driver; another number for each that took its place: what was loaded through one is none of
/// another's.
int driver_number();

/// Oldest driver whose launches and tensor maps suffice, as cuDriverGetVersion counts: CUDA 12.3, the first with all of
/// kernels compiled by NVRTC 12.3 and clusters' occupancy.
inline constexpr int kOldestDriver = 12030;

/// "12.3" of 12030.
std::string version_text(int version);

/// Refuses a failed call. `what` says what was tried: "launch kernel residual_128x256 on cuda:0". Errors:
/// OutOfMemoryError, DeviceError.
void check(Result result, std::string_view call, std::string_view what);

/// Puts another table in the driver's place while it lives; null is a machine without one. One at a time.
class DriverForTesting {
 public:
  explicit DriverForTesting(const DriverApi* api);
  ~DriverForTesting();
  DriverForTesting(const DriverForTesting&) = delete;
  DriverForTesting& operator=(const DriverForTesting&) = delete;
};

}  // namespace coda::cuda
