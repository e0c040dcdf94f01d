#include "core/options.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "core/check.h"

namespace coda {
namespace {

std::string text_of(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

int count_of(const char* name) {
  const std::string text = text_of(name);
  if (text.empty()) return 0;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  REQUIRE(ValueError, error == std::errc() && end == text.data() + text.size() && value >= 0, "environment: ", name,
          " is '", text, "', expected a whole number of 0 or more: unset it or set it to one");
  return value;
}

}  // namespace

const Options& options() {
  static const Options instance{text_of("CODA_BACKEND"), count_of("CODA_NUM_THREADS")};
  return instance;
}

}  // namespace coda
