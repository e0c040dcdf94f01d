// The two macros that raise. REQUIRE is for the caller's mistakes, INVARIANT for ours.
//
//   REQUIRE(ValueError, cols == n, "gemm: operand '", name, "' has ", cols, " columns, expected ", n, " (N): ...");
//   INVARIANT(id < size, "validate: node ", id, " of ", size, "\n", program_text);
#pragma once

#include <sstream>
#include <string>

#include "coda/error.h"

namespace coda {

/// Joins its arguments with operator<<.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace coda

#define REQUIRE(kind, condition, ...)                                  \
  do {                                                                 \
    if (!(condition)) throw ::coda::kind(::coda::concat(__VA_ARGS__)); \
  } while (false)

#define INVARIANT(condition, ...)                                                                \
  do {                                                                                           \
    if (!(condition))                                                                            \
      throw ::coda::InternalError(                                                               \
          ::coda::concat("internal error, please report it (", #condition, "): ", __VA_ARGS__)); \
  } while (false)
