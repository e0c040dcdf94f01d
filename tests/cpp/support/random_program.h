// A RapidCheck generator of random valid programs, which shrink. All of their heads, periods and spans divide
// kRandomProgramColumns, so an output of any multiple of it has a place for them.
//
//   rc::check("...", [] { const Program program = *random_programs(); ... });
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <ostream>

#include "coda/program.h"

namespace coda::testing_support {

inline constexpr std::int64_t kRandomProgramColumns = 16;

struct RandomProgramOptions {
  int max_steps = 40;
  /// Values stay moderate, inside every op's domain and away from jumps, so that two ways to compute one agree closely:
  /// only what is loaded is compared and rounded, and divisors are bounded away from 0. SelectCol's indices are
  /// integer operands. Otherwise anything valid.
  bool tame = true;
};

rc::Gen<Program> random_programs(RandomProgramOptions options = {});

}  // namespace coda::testing_support

namespace coda {

/// How RapidCheck shows a counterexample.
void showValue(const Program& program, std::ostream& out);

}  // namespace coda
