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

std::string cache_mode_of(const char* name) {
  const std::string text = text_of(name);
  if (text.empty()) return "rw";
  REQUIRE(ValueError, text == "rw" || text == "ro" || text == "off", "environment: ", name, " is '", text,
          "', expected rw, ro or off: unset it or set it to one");
  return text;
}

}  // namespace

Options read_options() {
  Options read;
  read.backend = text_of("CODA_BACKEND");
  read.threads = count_of("CODA_NUM_THREADS");
  read.cache = cache_mode_of("CODA_CACHE");
  read.cache_dir = text_of("CODA_CACHE_DIR");
  read.xdg_cache_home = text_of("XDG_CACHE_HOME");
  read.home = text_of("HOME");
  read.nvrtc = text_of("CODA_NVRTC");
  read.nvrtc_flags = text_of("NVRTC_APPEND_FLAGS");
  read.virtual_env = text_of("VIRTUAL_ENV");
  return read;
}

const Options& options() {
  static const Options instance = read_options();
  return instance;
}

}  // namespace coda
