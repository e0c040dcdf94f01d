// The commands of the program `coda`: each adds its options to the command line, and runs when it was given.
#pragma once

#include <CLI/CLI11.hpp>
#include <functional>
#include <vector>

#include "coda/cuda.h"

namespace coda::cli {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  ///< returns the exit status
};

/// What a command that did what it was asked returns, one that found or met a problem, and one that was not asked for
/// something it can do.
inline constexpr int kOk = 0;
inline constexpr int kProblem = 1;
inline constexpr int kUsage = 2;

/// `host`: see run().
Command doctor_command(CLI::App& coda, const std::vector<Diagnosis>& host);
Command cache_command(CLI::App& coda);
Command dump_command(CLI::App& coda);
Command explain_command(CLI::App& coda);
Command explain_layer_command(CLI::App& explain);
Command tune_command(CLI::App& coda);

}  // namespace coda::cli
