// What the parser accepts beyond printed text, and that no text can do worse than raise.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "coda/error.h"
#include "support/random_program.h"

namespace coda {
namespace {

using testing_support::random_programs;

TEST(Parse, TakesCommentsBlankLinesAndSpaces) {
  const Program program = parse_program(
      "# a program\n\n\tprogram  p {  # its name\r\n\r\n"
      "in x:tile   # an operand\n"
      "  out y : tile f32\n\n\n"
      "  a=load( x )\n"
      "  store ( y , a )\n"
      "}   # done\n\n# nothing more");
  EXPECT_EQ(to_text(program), "program p {\n  in x: tile\n  out y: tile f32\n\n  a = load(x)\n  store(y, a)\n}\n");
}

TEST(Parse, NamesOfUnnamedValuesAreOnlyLabels) {
  const Program program = parse_program("program p {\n  v7 = acc(0)\n  v3 = neg(v7)\n}");
  EXPECT_EQ(program.node(0).name, "");
  EXPECT_EQ(to_text(program), "program p {\n  v0 = acc(0)\n  v1 = neg(v0)\n}\n");
}

TEST(Parse, WordsOfTheLanguageAreNoReservedNames) {
  const std::string text =
      "program program {\n  in in: tile\n  out out: tile\n\n"
      "  in = load(in)\n  store = neg(in)\n  halves = split(store, 0, halves(8, 4))\n  nan = const(nan)\n"
      "  ignored = join(halves, halves, in, halves(8, 4))\n  store(out, ignored)\n}\n";
  EXPECT_EQ(to_text(parse_program(text)), text);
}

// Printed text with a few bytes exchanged, dropped, doubled or replaced by ones the grammar likes.
std::string mutated(std::string text) {
  const std::string liked = "{}(),:=#\n \t-+.09e_azinf\0\x80\xff";
  const int changes = *rc::gen::inRange(1, 6);
  for (int i = 0; i < changes && !text.empty(); ++i) {
    const auto at = static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(text.size())));
    const auto other = static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(text.size())));
    const auto length = static_cast<std::size_t>(*rc::gen::inRange(1, 40));
    switch (*rc::gen::inRange(0, 5)) {
      case 0: text[at] = liked[other % liked.size()]; break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(other, length)); break;
      case 3: std::swap(text[at], text[other]); break;
      default: text.insert(at, std::to_string(*rc::gen::arbitrary<std::int64_t>())); break;
    }
  }
  return text;
}

// Parses or refuses with a place; nothing else may happen.
void parse_hostile(const std::string& text) {
  try {
    const std::string printed = to_text(parse_program(text));
    RC_ASSERT(to_text(parse_program(printed)) == printed);
    RC_TAG("accepted");
  } catch (const ValueError& error) {
    RC_ASSERT(std::string(error.what()).starts_with("parse_program: line "));
    RC_TAG("refused");
  } catch (const Error& error) {
    RC_FAIL(std::string(error.what()) + "\n" + text);
  }
}

RC_GTEST_PROP(Parse, SurvivesMutatedText, ()) { parse_hostile(mutated(to_text(*random_programs({.tame = false})))); }

RC_GTEST_PROP(Parse, SurvivesAnyBytes, (const std::string& text)) {
  parse_hostile(text);
  parse_hostile("program p {\n" + text);
}

}  // namespace
}  // namespace coda
