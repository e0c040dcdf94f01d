// The part of the fake driver that tensors on a GPU need. Their memory is invented: nothing is copied.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "cuda/fake_gpu.h"

namespace coda::testing_support {

struct FakeCopy {
  std::string kind;  ///< "to device", "to host", "within"
  std::uint64_t to = 0, from = 0;
  std::size_t bytes = 0;
  cuda::Stream stream = nullptr;
};

/// What was copied, and the streams that were waited for.
struct FakeTraffic {
  std::vector<FakeCopy> copies{};
  std::vector<cuda::Stream> waited{};
};

inline FakeTraffic& fake_traffic() {
  static FakeTraffic instance;
  return instance;
}

/// Adds them to a driver.
inline void fake_memory(cuda::DriverApi& api) {
  fake_traffic() = {};
  api.pool_create = [](cuda::MemoryPool* pool, const cuda::PoolProperties* properties) {
    return fake_call("pool_create", [&](FakeGpu&) {
      *pool =
          reinterpret_cast<cuda::MemoryPool>(std::uintptr_t{0x9000} + static_cast<unsigned>(properties->location_id));
    });
  };
  api.pool_set = [](cuda::MemoryPool, int, void*) { return fake_call("pool_set", [](FakeGpu&) {}); };
  api.alloc_from_pool = [](cuda::DevicePointer* pointer, std::size_t bytes, cuda::MemoryPool pool,
                           cuda::Stream stream) {
    return fake_call("alloc_from_pool", [&](FakeGpu& gpu) {
      *pointer = 0x700000000000 + (gpu.allocations.size() << 32);
      gpu.allocations.push_back({*pointer, bytes, stream, false, pool});
    });
  };
  api.copy_to_device_async = [](cuda::DevicePointer to, const void* from, std::size_t bytes, cuda::Stream stream) {
    return fake_call("copy_to_device_async", [&](FakeGpu&) {
      fake_traffic().copies.push_back({"to device", to, reinterpret_cast<std::uint64_t>(from), bytes, stream});
    });
  };
  api.copy_to_host_async = [](void* to, cuda::DevicePointer from, std::size_t bytes, cuda::Stream stream) {
    return fake_call("copy_to_host_async", [&](FakeGpu&) {
      std::memset(to, 0, bytes);
      fake_traffic().copies.push_back({"to host", reinterpret_cast<std::uint64_t>(to), from, bytes, stream});
    });
  };
  api.copy_within_async = [](cuda::DevicePointer to, cuda::DevicePointer from, std::size_t bytes, cuda::Stream stream) {
    return fake_call("copy_within_async",
                     [&](FakeGpu&) { fake_traffic().copies.push_back({"within", to, from, bytes, stream}); });
  };
  api.stream_synchronize = [](cuda::Stream stream) {
    return fake_call("stream_synchronize", [&](FakeGpu&) { fake_traffic().waited.push_back(stream); });
  };
  api.context_synchronize = [] { return fake_call("context_synchronize", [](FakeGpu&) {}); };
}

}  // namespace coda::testing_support
