#include "ir/parse_lexer.h"

#include <iomanip>
#include <sstream>

namespace coda {
namespace {

bool is_letter(char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return '0' <= c && c <= '9'; }

// Length of the name at the start of `rest`.
std::size_t name_length(std::string_view rest) {
  std::size_t length = 0;
  while (length < rest.size() && (is_letter(rest[length]) || is_digit(rest[length]))) ++length;
  return length;
}

// Length of the number-like run: a sign belongs to it at the start and after an exponent's e.
std::size_t number_length(std::string_view rest) {
  std::size_t length = 1;
  for (; length < rest.size(); ++length) {
    const char c = rest[length], before = rest[length - 1];
    const bool exponent_sign = (c == '-' || c == '+') && (before == 'e' || before == 'E');
    if (!(is_letter(c) || is_digit(c) || c == '.' || exponent_sign)) break;
  }
  return length;
}

std::string shown(char c) {
  if (' ' < c && c < 127) return concat("'", c, "'");
  std::ostringstream text;
  text << "byte 0x" << std::hex << std::setw(2) << std::setfill('0') << static_cast<int>(static_cast<unsigned char>(c));
  return text.str();
}

// Kind and length of the token at the start of `rest`; length 0 when none begins there.
std::pair<Token::Kind, std::size_t> next_token(std::string_view rest) {
  const char c = rest[0];
  if (is_letter(c)) return {Token::Kind::Name, name_length(rest)};
  if (is_digit(c) || c == '-' || c == '+' || c == '.') return {Token::Kind::Number, number_length(rest)};
  const bool mark = std::string_view("{}(),:=").find(c) != std::string_view::npos;
  return {Token::Kind::Mark, mark ? 1 : 0};
}

}  // namespace

std::string quoted(const Token& token) {
  switch (token.kind) {
    case Token::Kind::Name:
    case Token::Kind::Number:
    case Token::Kind::Mark: return concat("'", token.text, "'");
    case Token::Kind::Line: return "the end of the line";
    case Token::Kind::End: return "the end of the text";
  }
  INVARIANT(false, "token kind ", static_cast<int>(token.kind));
}

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  std::size_t at = 0, line_start = 0;
  int line = 1;
  const auto add = [&](Token::Kind kind, std::size_t length) {
    tokens.push_back({kind, text.substr(at, length), line, static_cast<int>(at - line_start) + 1});
    at += length;
  };
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\n') {
      const bool empty_line = tokens.empty() || tokens.back().kind == Token::Kind::Line;
      if (!empty_line) add(Token::Kind::Line, 0);
      ++at, ++line, line_start = at;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at;
    } else if (c == '#') {
      while (at < text.size() && text[at] != '\n') ++at;
    } else {
      const auto [kind, length] = next_token(text.substr(at));
      if (length == 0)
        fail_at({Token::Kind::Mark, {}, line, static_cast<int>(at - line_start) + 1}, "got ", shown(c),
                ", which begins no name, number or mark of program text");
      add(kind, length);
    }
  }
  add(Token::Kind::End, 0);
  return tokens;
}

}  // namespace coda
