// Cuts program text into tokens with their places, for parse.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"

namespace coda {

struct Token {
  enum class Kind {
    Name,    ///< identifier or keyword
    Number,  ///< anything that begins like a number: a digit, sign or point
    Mark,    ///< one of { } ( ) , : =
    Line,    ///< end of a line that holds other tokens
    End,     ///< end of the text
  };
  Kind kind = Kind::End;
  std::string_view text;
  int line = 1;
  int column = 1;

  bool is(std::string_view mark_or_word) const {
    return (kind == Kind::Name || kind == Kind::Mark) && text == mark_or_word;
  }
};

/// Raises the parser's error at a token.
template <class... Parts>
[[noreturn]] void fail_at(const Token& token, const Parts&... parts) {
  throw ValueError(concat("parse_program: line ", token.line, ", column ", token.column, ": ", concat(parts...)));
}

/// What a message calls the token: its text in quotes, or what it stands for.
std::string quoted(const Token& token);

/// All tokens of `text`, the last of kind End. Comments and empty lines leave no token. Errors: ValueError for a
/// character that begins none.
std::vector<Token> tokens_of(std::string_view text);

}  // namespace coda
