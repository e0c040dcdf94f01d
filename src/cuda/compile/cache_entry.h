// One entry of the disk cache: the folder `<name>.<key>` with kernel.cu, kernel.cubin and meta.json.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cuda/compile/cache_key.h"
#include "cuda/compile/nvrtc.h"

namespace coda::cuda {

enum class EntryState {
  Missing,
  Unreadable,  ///< for a reason that may pass: it is neither used nor removed
  Bad,         ///< not as it was written, or not what its name says
  Good,
};

struct Entry {
  EntryState state = EntryState::Missing;
  std::string problem;  ///< why it is bad: "kernel.cubin has 12 bytes, expected 3568"
  std::string arch;
  std::string text;
  Cubin cubin;
  std::string created;     ///< ISO 8601, UTC
  std::int64_t bytes = 0;  ///< of all files; also of a bad entry, as far as they can be read
};

/// Reads an entry and checks every byte of it: schema, lengths, checksums, the cubin's header, that meta.json is about
/// this folder. `directory` is the cache's.
Entry read_entry(int directory, const std::string& name);

/// Makes an entry aside, brings it to the medium and gives it its name. An entry that has the name already stays.
/// Returns why it could not, or empty; either way nothing half-made is left.
std::string write_entry(int directory, const std::string& name, const std::string& key, const CompilationInputs& inputs,
                        const Cubin& cubin);

/// Takes an entry out of the cache in one step, then removes its files; returns what went wrong, or empty. Files that
/// cannot be removed stay as leftovers.
std::string remove_entry(int directory, const std::string& name);

/// Removes what killed processes left half-made: what is older than an hour, and what is older than `grace` and whose
/// process is dead. Processes of other hosts and containers look dead from here, hence the grace.
void remove_leftovers(int directory, std::chrono::seconds grace = std::chrono::seconds(60));

/// True for the folders write_entry makes aside.
bool is_leftover_name(std::string_view name);

}  // namespace coda::cuda
