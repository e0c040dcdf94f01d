#include "ir/parse_reader.h"

#include <charconv>
#include <limits>

namespace coda {

const Token& TokenReader::peek(std::size_t ahead) const {
  const std::size_t last = tokens_.size() - 1;
  return tokens_[std::min(at_ + ahead, last)];
}

Token TokenReader::take() {
  const Token token = peek();
  if (token.kind != Token::Kind::End) ++at_;
  return token;
}

bool TokenReader::accept(std::string_view mark_or_word) {
  if (!peek().is(mark_or_word)) return false;
  take();
  return true;
}

void TokenReader::expect(std::string_view mark_or_word) {
  if (!accept(mark_or_word)) fail_at(peek(), "got ", quoted(peek()), ", expected '", mark_or_word, "'");
}

Token TokenReader::expect_name(std::string_view what) {
  if (peek().kind != Token::Kind::Name) fail_at(peek(), "got ", quoted(peek()), ", expected ", what);
  return take();
}

void TokenReader::expect_line_end() {
  if (peek().kind == Token::Kind::End) return;
  if (peek().kind != Token::Kind::Line)
    fail_at(peek(), "got ", quoted(peek()), ", expected the end of the line: each statement has its own");
  take();
}

std::int64_t TokenReader::integer(std::string_view what) {
  const Token token = peek();
  std::int64_t value = 0;
  const char* const end = token.text.data() + token.text.size();
  const bool number = token.kind == Token::Kind::Number;
  const auto [stop, error] = std::from_chars(token.text.data(), end, value);
  if (number && error == std::errc::result_out_of_range)
    fail_at(token, quoted(token), " is out of range, expected ", what, " of at most 64 bits");
  if (!number || error != std::errc{} || stop != end)
    fail_at(token, "got ", quoted(token), ", expected ", what, ": a whole number");
  take();
  return value;
}

int TokenReader::bit(std::string_view what) {
  const Token token = peek();
  const std::int64_t value = integer(what);
  if (value != 0 && value != 1) fail_at(token, "got ", value, ", expected ", what, " 0 or 1");
  return static_cast<int>(value);
}

double TokenReader::number() {
  const Token token = take();
  if (token.is("nan")) return std::numeric_limits<double>::quiet_NaN();
  if (token.is("inf")) return std::numeric_limits<double>::infinity();
  if (token.text == "-inf") return -std::numeric_limits<double>::infinity();
  double value = 0;
  const char* const end = token.text.data() + token.text.size();
  const bool plain =
      token.kind == Token::Kind::Number && token.text.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
  const auto [stop, error] = std::from_chars(token.text.data(), end, value);
  if (plain && error == std::errc::result_out_of_range)
    fail_at(token, quoted(token), " is out of a double's range, expected a number a double holds, or inf");
  if (!plain || error != std::errc{} || stop != end)
    fail_at(token, "got ", quoted(token), ", expected a number, nan, inf or -inf");
  return value;
}

DType TokenReader::dtype() {
  return word("a dtype", {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I32, DType::I64});
}

bool TokenReader::at_pairing() const { return (peek().is("halves") || peek().is("interleaved")) && peek(1).is("("); }

Pairing TokenReader::pairing() {
  if (!at_pairing())
    fail_at(peek(), "got ", quoted(peek()), ", expected a pairing: halves(head, width) or interleaved(head, width)");
  Pairing pairing{take().is("halves") ? Pairing::Kind::Halves : Pairing::Kind::Interleaved};
  expect("(");
  pairing.head = integer("a head width");
  expect(",");
  pairing.width = integer("a paired width");
  expect(")");
  return pairing;
}

}  // namespace coda
