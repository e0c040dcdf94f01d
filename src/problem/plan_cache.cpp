#include "problem/plan_cache.h"

#include <algorithm>

namespace coda {
namespace {

constexpr std::size_t kUsualKey = 96;    // numbers: most calls' keys grow no further
constexpr std::int64_t kAlignment = 16;  // bytes: the finest that a backend's choice depends on

void append(std::vector<std::int64_t>& key, const TensorView& tensor) {
  key.push_back(static_cast<std::int64_t>(tensor.dtype()));
  key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.data()) % kAlignment));
  key.insert(key.end(), tensor.shape().begin(), tensor.shape().end());
  key.insert(key.end(), tensor.strides().begin(), tensor.strides().end());
}

// All of a problem but its name and where its tensors are. Every part has a fixed length or tells its own.
std::vector<std::int64_t> key_of(const Problem& problem, std::string_view backend, std::uint64_t epoch) {
  std::vector<std::int64_t> key;
  key.reserve(kUsualKey);
  key = {static_cast<std::int64_t>(epoch),
         static_cast<std::int64_t>(problem.device.kind),
         problem.device.index,
         static_cast<std::int64_t>(backend.size()),
         problem.m,
         problem.n};
  key.insert(key.end(), backend.begin(), backend.end());
  for (const Factor* factor : {&problem.a, &problem.b}) {
    key.push_back(static_cast<std::int64_t>(factor->view));
    key.push_back(static_cast<std::int64_t>(factor->parts.size()));
    for (const TensorView& part : factor->parts) append(key, part);
  }
  for (const BoundSegment& segment : problem.segments) {
    key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&segment.program.data())));
    for (const TensorView& operand : segment.operands) append(key, operand);
  }
  return key;
}

std::size_t hash_of(const std::vector<std::int64_t>& key) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, a number at a time
  for (const std::int64_t number : key) hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x100000001b3u;
  return hash;
}

}  // namespace

std::shared_ptr<const Plan> PlanCache::get(const Problem& problem, std::string_view backend, std::uint64_t epoch,
                                           const std::function<std::unique_ptr<Plan>()>& make) {
  std::vector<std::int64_t> key = key_of(problem, backend, epoch);
  const std::size_t hash = hash_of(key);
  {
    const std::lock_guard lock(mutex_);
    if (Entry* entry = find(hash, key)) return entry->plan;
  }
  const std::shared_ptr<const Plan> plan = make();  // may compile for a second: other calls go on meanwhile
  const std::lock_guard lock(mutex_);
  if (Entry* entry = find(hash, key)) return entry->plan;
  if (entries_.size() >= most_) entries_.erase(std::ranges::min_element(entries_, {}, &Entry::used));
  Entry entry{.hash = hash, .key = std::move(key), .plan = plan, .used = ++clock_};
  for (const BoundSegment& segment : problem.segments) entry.programs.push_back(segment.program);
  entries_.push_back(std::move(entry));
  return plan;
}

PlanCache::Entry* PlanCache::find(std::size_t hash, const std::vector<std::int64_t>& key) {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.hash == hash && entry.key == key; });
  if (found == entries_.end()) return nullptr;
  found->used = ++clock_;
  return &*found;
}

}  // namespace coda
