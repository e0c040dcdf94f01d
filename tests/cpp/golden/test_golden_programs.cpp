// The text of every library program is checked in: a change that alters one shows as a diff of tests/golden.
#include <gtest/gtest.h>

#include "coda/epilogues.h"
#include "golden/files.h"

namespace coda {
namespace {

TEST(GoldenPrograms, AreTheLibrarys) {
  GoldenFiles files(".ir");
  for (const auto& [name, program] : epilogues::library()) files.expect(name, to_text(program));
  files.expect_no_others();
}

TEST(GoldenPrograms, ParseToThemselves) {
  for (const auto& path : GoldenFiles(".ir").all()) {
    SCOPED_TRACE(path);
    EXPECT_EQ(to_text(parse_program(read_golden(path))), read_golden(path));
  }
}

}  // namespace
}  // namespace coda
