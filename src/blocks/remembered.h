// Programs of the blocks, built once per process: for one token, building one takes longer than running it.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include "coda/epilogues.h"

namespace coda {

/// make(), a Program or a Backward, or what it gave before for an equal key of the same caller. Keys are tuples of
/// integers and texts; a double enters by its bits, since NaN has no place in an order.
template <class Key, class Make>
auto remembered(const Key& key, Make make) {
  static std::mutex mutex;
  static std::map<Key, decltype(make())> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, make()).first->second;
}

inline std::uint64_t key_of(double value) { return std::bit_cast<std::uint64_t>(value); }

inline auto key_of(const epilogues::DelayedRms& norm) { return std::tuple(norm.count, key_of(norm.eps)); }

inline auto key_of(const epilogues::RmsGated& options) {
  const epilogues::Gated& gated = options.gated;  // without `clamped`, which no block sets
  return std::tuple(key_of(options.norm), gated.gate, gated.bias, gated.save_inputs);
}

inline auto key_of(const epilogues::Rope& rope) {
  return std::tuple(rope.head, rope.width, rope.interleaved, rope.angles, key_of(rope.base), key_of(rope.scale));
}

}  // namespace coda
