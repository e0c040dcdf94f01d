// The two macros that raise. REQUIRE is for the caller's mistakes, INVARIANT for ours.
//
//   REQUIRE(ValueError, cols == n, "gemm: operand '", name, "' has ", cols, " columns, expected ", n, " (N): ...");
//   INVARIANT(id < size, "validate: node ", id, " of ", size, "\n", program_text);
#pragma once

#include <concepts>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include "coda/error.h"

namespace coda {

/// Appends what operator<< prints. A stream takes longer to make than a call to bind, so text and integers need none.
template <class Part>
void append(std::string& text, const Part& part) {
  static_assert(!std::is_function_v<Part>, "a manipulator such as std::hex would change nothing here");
  if constexpr (std::convertible_to<const Part&, std::string_view>) {
    text += std::string_view(part);
  } else if constexpr (std::same_as<Part, char>) {
    text += part;
  } else if constexpr (std::integral<Part> && sizeof(Part) > 1) {
    text += std::to_string(part);
  } else {
    std::ostringstream out;
    out << part;
    text += out.str();
  }
}

/// Joins its arguments as operator<< prints them.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
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
