// The thread pool of the CPU backend. parallel_for may be called from several user threads at once, from inside
// another parallel_for (it then runs inline) and after a fork.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace coda::cpu {

/// Workers the next parallel_for of this thread may use: `worker` stays below it.
int parallel_width();

/// What parallel_for calls for each index; kept apart so that the pool itself is no template.
struct IndexCall {
  void (*call)(void* context, int worker, std::int64_t index);
  void* context;
};

void parallel_for(std::int64_t count, IndexCall body);

/// Calls fn(worker, index) for every index in [0, count), each once, in no fixed order, and returns when all are done.
/// `worker` names the thread for the time of this call. The first exception is thrown to the caller; indices not yet
/// started are then left out.
template <class Fn>
void parallel_for(std::int64_t count, Fn&& fn) {
  using Body = std::remove_reference_t<Fn>;
  parallel_for(count, IndexCall{[](void* context, int worker, std::int64_t index) {
                                  (*static_cast<Body*>(context))(worker, index);
                                },
                                const_cast<void*>(static_cast<const void*>(std::addressof(fn)))});
}

}  // namespace coda::cpu
