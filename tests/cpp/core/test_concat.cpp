// concat prints what operator<< prints, though it makes no stream for text and integers.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "core/check.h"

namespace coda {
namespace {

template <class... Parts>
std::string streamed(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

TEST(Concat, PrintsAsAStreamDoes) {
  const std::string text = "text";
  const std::string_view view = text;
  const char* const pointer = "pointer";
  EXPECT_EQ(concat(text, view, pointer, "array", 'c'), "texttextpointerarrayc");
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(concat(-1, " ", kLeast, " ", kMost, " ", std::size_t{7}, true, std::int8_t{'a'}),
            streamed(-1, " ", kLeast, " ", kMost, " ", std::size_t{7}, true, std::int8_t{'a'}));
  EXPECT_EQ(concat(0.1, " ", 1e-30f, " ", 1e300, " ", 3.0), streamed(0.1, " ", 1e-30f, " ", 1e300, " ", 3.0));
  EXPECT_EQ(concat(), "");
}

}  // namespace
}  // namespace coda
