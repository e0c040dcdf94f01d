#include "core/log.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "core/check.h"

namespace coda {
namespace {

struct Warnings {
  std::mutex mutex;
  std::set<std::string, std::less<>> keys;
  bool capturing = false;
  std::vector<std::string> captured;
};

// Never destroyed: a thread may warn while the process ends.
Warnings& warnings() {
  static Warnings& instance = *new Warnings;
  return instance;
}

// What the captures found before them, to be put back.
std::set<std::string, std::less<>>& keys_before() {
  static auto& instance = *new std::set<std::string, std::less<>>;
  return instance;
}

}  // namespace

void warn_once(std::string_view key, std::string_view message) {
  Warnings& state = warnings();
  const std::lock_guard lock(state.mutex);
  if (!state.keys.emplace(key).second) return;
  if (state.capturing) {
    state.captured.emplace_back(message);
    return;
  }
  // One write, so that lines of several processes do not mix.
  const std::string line = concat("coda: warning: ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

CapturedWarnings::CapturedWarnings() {
  Warnings& state = warnings();
  const std::lock_guard lock(state.mutex);
  INVARIANT(!state.capturing, "CapturedWarnings: one lives already");
  state.capturing = true;
  state.captured.clear();
  keys_before() = std::exchange(state.keys, {});
}

CapturedWarnings::~CapturedWarnings() {
  Warnings& state = warnings();
  const std::lock_guard lock(state.mutex);
  state.capturing = false;
  state.keys = std::move(keys_before());
}

std::vector<std::string> CapturedWarnings::messages() const {
  Warnings& state = warnings();
  const std::lock_guard lock(state.mutex);
  return state.captured;
}

}  // namespace coda
