// The text of every library program, and of its backward, is checked in: a change that alters one shows as a diff of
// tests/golden.
#include <gtest/gtest.h>

#include "autodiff/backward_cases.h"
#include "coda/epilogues.h"
#include "golden/files.h"

namespace coda {
namespace {

TEST(GoldenPrograms, AreTheLibrarys) {
  GoldenFiles files(".ir");
  for (const auto& [name, program] : epilogues::library()) files.expect(name, to_text(program));
  for (const testing_support::BackwardCase& each : testing_support::backward_cases()) {
    const Backward backward = differentiate(each.forward, each.wrt, each.cotangents, each.options);
    files.expect("backward_" + each.name, to_text(backward.program));
    for (const Gradient& gradient : backward.gradients)
      if (gradient.finish) files.expect("backward_" + each.name + "_finish_" + gradient.of, to_text(*gradient.finish));
  }
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
