// Reads tokens one after another and says what it expected instead of what it found.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "coda/program.h"
#include "ir/parse_lexer.h"
#include "ir/validate.h"

namespace coda {

class TokenReader {
 public:
  explicit TokenReader(std::string_view text) : tokens_(tokens_of(text)) {}

  const Token& peek(std::size_t ahead = 0) const;
  Token take();

  /// Takes the next token if it is this mark or word.
  bool accept(std::string_view mark_or_word);

  /// Takes the next token, which has to be this mark or word.
  void expect(std::string_view mark_or_word);

  /// Takes an identifier; `what` it names goes into the message.
  Token expect_name(std::string_view what);

  void expect_line_end();

  std::int64_t integer(std::string_view what);
  /// 0 or 1.
  int bit(std::string_view what);
  double number();

  /// One of the words `name_of` gives `choices`.
  template <class Enum>
  Enum word(std::string_view what, std::initializer_list<Enum> choices);
  DType dtype();

  /// True when halves( or interleaved( comes next; a value may have either name.
  bool at_pairing() const;
  Pairing pairing();

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

template <class Enum>
Enum TokenReader::word(std::string_view what, std::initializer_list<Enum> choices) {
  std::string list;
  for (const Enum choice : choices) {
    if (peek().is(name_of(choice))) {
      take();
      return choice;
    }
    list += concat(list.empty() ? "" : ", ", name_of(choice));
  }
  fail_at(peek(), "got ", quoted(peek()), ", expected ", what, ": one of ", list);
}

}  // namespace coda
