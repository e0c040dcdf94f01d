#include "core/cache_root.h"

#include <filesystem>
#include <system_error>

namespace coda {
namespace {

namespace fs = std::filesystem;

// Absolute, without "." and slashes at the end, which would make open follow a link at the last component. Empty where
// the working directory, which a relative path is below, no longer exists.
std::string normal(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  if (error) return {};
  return (whole.has_filename() ? whole : whole.parent_path()).string();
}

}  // namespace

std::string cache_root(const Options& options) {
  // A relative XDG_CACHE_HOME is to be ignored, its specification says; a relative HOME is no better.
  if (!options.cache_dir.empty()) return normal(options.cache_dir);
  if (options.xdg_cache_home.starts_with('/')) return normal(fs::path(options.xdg_cache_home) / "coda");
  if (options.home.starts_with('/')) return normal(fs::path(options.home) / ".cache" / "coda");
  return {};
}

}  // namespace coda
