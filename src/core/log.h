// Warnings: what a user should know although the call succeeds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coda {

/// Prints "coda: warning: <message>" to stderr, the first time this process gives `key`. Thread-safe.
void warn_once(std::string_view key, std::string_view message);

/// For tests: while it lives, warnings are kept instead of printed, and every key counts as new. One at a time.
class CapturedWarnings {
 public:
  CapturedWarnings();
  ~CapturedWarnings();
  CapturedWarnings(const CapturedWarnings&) = delete;
  CapturedWarnings& operator=(const CapturedWarnings&) = delete;

  std::vector<std::string> messages() const;
};

}  // namespace coda
