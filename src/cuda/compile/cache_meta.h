// meta.json of a cache entry: what the entry was made from, and checksums that find any change.
#pragma once

#include <string>

#include "cuda/compile/cache_key.h"
#include "cuda/compile/nvrtc.h"

namespace coda::cuda {

/// The part of meta.json that reading needs.
struct EntryMeta {
  std::string name;
  std::string key;
  std::string arch;
  std::string created;
  std::string log;
  std::size_t text_bytes = 0;
  std::size_t cubin_bytes = 0;
  std::string text_checksum;
  std::string cubin_checksum;
};

/// The file's content, to be read by people, too.
std::string make_meta(const std::string& key, const CompilationInputs& inputs, const Cubin& cubin);

/// Reads it; returns what is wrong with it, or empty.
std::string parse_meta(const std::string& json, EntryMeta& meta);

}  // namespace coda::cuda
