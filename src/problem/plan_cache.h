// Plans of recent calls, so that gemm() plans once where its caller does not keep a plan.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "coda/backend.h"

namespace coda {

class PlanCache {
 public:
  /// Keeps at most that many plans; the one unused for longest goes first.
  explicit PlanCache(std::size_t most) : most_(most) {}

  /// The plan kept for a problem that differs in nothing but where its tensors are, and for the same backend name and
  /// epoch; else what `make` gives, which is kept. Safe to call from several threads.
  std::shared_ptr<const Plan> get(const Problem& problem, std::string_view backend, std::uint64_t epoch,
                                  const std::function<std::unique_ptr<Plan>()>& make);

 private:
  struct Entry {
    std::size_t hash = 0;
    std::vector<std::int64_t> key{};
    std::vector<Program> programs{};  ///< the key has their addresses: they must not be used for others
    std::shared_ptr<const Plan> plan{};
    std::uint64_t used = 0;
  };

  Entry* find(std::size_t hash, const std::vector<std::int64_t>& key);

  const std::size_t most_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::uint64_t clock_ = 0;
};

}  // namespace coda
