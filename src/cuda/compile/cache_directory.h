// Where kernels are kept on disk, and whether that directory can be trusted: who can write into it chooses the code
// that runs on the GPU.
#pragma once

#include <chrono>
#include <string>

#include "core/options.h"
#include "cuda/compile/files.h"

namespace coda::cuda {

enum class CacheMode { Off, ReadOnly, ReadWrite };

struct CacheSettings {
  CacheMode mode = CacheMode::ReadWrite;
  std::string directory;                        ///< absolute; empty: none is known
  std::chrono::milliseconds patience{120'000};  ///< how long to wait for another process that compiles the same
};

/// What the environment asks for: CODA_CACHE and the directory of cache_root.
CacheSettings cache_settings(const Options& options);

/// The cache's directory, open; or why it is not used; or neither, when it does not exist yet.
struct CacheDirectory {
  Descriptor descriptor;
  std::string problem;  ///< "it is a symbolic link"
};

/// `create` makes it, and the directories above, when missing; only the user can enter what is made.
CacheDirectory open_cache_directory(const CacheSettings& settings, bool create);

/// Why the directory could not be created or written into, or empty. Writes nothing.
std::string cache_write_problem(const CacheSettings& settings);

/// True when only the user can change the folder of an entry: it may be older than the directory's good mode.
bool is_trusted_entry(int directory, int entry);

/// What errno says: "No space left on device".
std::string text_of_error(int error);

}  // namespace coda::cuda
