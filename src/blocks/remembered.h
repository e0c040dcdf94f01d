// Programs of the blocks, built once per process: for one token, building one takes longer than running it.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include "coda/epilogues.h"

namespace coda {

/// make(), or what it gave before for an equal key of the same caller. Keys are tuples of integers and texts; a double
/// enters by its bits, since NaN has no place in an order.
template <class Key, class Make>
Program remembered(const Key& key, Make make) {
  static std::mutex mutex;
  static std::map<Key, Program> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, make()).first->second;
}

inline std::uint64_t key_of(double value) { return std::bit_cast<std::uint64_t>(value); }

inline auto key_of(const epilogues::DelayedRms& norm) { return std::tuple(norm.count, key_of(norm.eps)); }

inline auto key_of(const epilogues::Rope& rope) {
  return std::tuple(rope.head, rope.width, rope.interleaved, rope.angles, key_of(rope.base), key_of(rope.scale));
}

}  // namespace coda
