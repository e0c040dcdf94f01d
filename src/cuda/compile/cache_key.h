// What a compiled kernel depends on, all of it, and the name this gives it.
#pragma once

#include <span>
#include <string>

#include "cuda/compile/device_files.h"

namespace coda::cuda {

/// Raised when the content of a cache entry changes its form: entries of other schemas are not looked at.
inline constexpr int kCacheSchema = 1;

/// The inputs of one compilation.
struct CompilationInputs {
  int schema = kCacheSchema;
  std::string name;
  std::string text;
  std::string arch;
  std::string options;
  std::string nvrtc;         ///< version and build
  std::string coda;          ///< version
  std::string device_files;  ///< their digest
};

/// Of every path and text.
std::string digest_of(std::span<const DeviceFile> files);

/// coda's own version.
std::string coda_version();

/// 32 hex digits of a hash of every input.
std::string key_of(const CompilationInputs& inputs);

/// `<name>.<key>`, the folder of an entry; a long name is cut.
std::string entry_name(const std::string& name, const std::string& key);

/// True for what entry_name makes.
bool is_entry_name(std::string_view name);

}  // namespace coda::cuda
