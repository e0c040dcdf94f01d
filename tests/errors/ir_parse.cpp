// Every mistake in program text, and its text.
#include <gtest/gtest.h>

#include "coda/program.h"
#include "support/error_row.h"

namespace coda {
namespace {

using testing_support::ErrorRow;
using testing_support::expect_errors;

struct BadText {
  std::string text;
  const char* message;  // after "parse_program: "
};

void expect_text_errors(const std::vector<BadText>& texts) {
  std::vector<ErrorRow> rows;
  for (const auto& [text, message] : texts)
    rows.push_back(
        {typeid(ValueError), std::string("parse_program: ") + message, [text = text] { (void)parse_program(text); }});
  expect_errors(rows);
}

// Each text is line 8 of a program.
void expect_statement_errors(std::vector<BadText> statements) {
  const std::string head =
      "program p {\n  in x: tile\n  in c: col\n  out y: tile\n  out z: col f32 partials(sum, row, 64)\n\n  a = "
      "load(x)\n  ";
  for (BadText& statement : statements) statement.text = head + statement.text + "\n}\n";
  expect_text_errors(statements);
}

TEST(ParseErrors, WholePrograms) {
  expect_text_errors({
      {"", "line 1, column 1: got the end of the text, expected 'program'"},
      {"epilogue p {\n}\n", "line 1, column 1: got 'epilogue', expected 'program'"},
      {"program 7 {\n}\n", "line 1, column 9: got '7', expected the program's name"},
      {"program p { x = acc(0)\n}\n",
       "line 1, column 13: got 'x', expected the end of the line: each statement has its own"},
      {"program p {\n  x = acc(0)\n", "line 3, column 1: program 'p' is not closed, expected '}' on a line of its own"},
      {"program p {\n}\nprogram q {\n}\n",
       "line 3, column 1: got 'program' after the program's '}', expected one program and no more"},
      {"program p {\n  x = acc(0);\n}\n",
       "line 2, column 13: got ';', which begins no name, number or mark of program text"},
      {"program p {\n  x = acc(0) \x80\n}\n",
       "line 2, column 14: got byte 0x80, which begins no name, number or mark of program text"},
      {"program p {\n  b = load(x)\n}\n",
       "line 2, column 12: unknown operand 'x', expected one declared at the top: there is none"},
  });
}

TEST(ParseErrors, Operands) {
  expect_text_errors({
      {"program p {\n  in x: matrix\n}\n",
       "line 2, column 9: got 'matrix', expected a shape: one of tile, row, col, scalar"},
      {"program p {\n  in x: tile float\n}\n",
       "line 2, column 14: got 'float', expected a dtype: one of f64, f32, bf16, f16, i32, i64"},
      {"program p {\n  in x: tile period bf16\n}\n",
       "line 2, column 21: got 'bf16', expected a period: a whole number"},
      {"program p {\n  in x: col period 8\n}\n",
       "line 2, column 3: program 'p': operand 'x' is an input col with a period, expected an input tile or row: only "
       "those repeat along the columns"},
      {"program p {\n  in x: tile\n  in x: row\n}\n",
       "line 3, column 6: operand 'x' is declared twice, expected each name once"},
      {"program p {\n  out x: col partials(mean, row, 64)\n}\n",
       "line 2, column 23: got 'mean', expected a reduction: one of sum, max, lse"},
      {"program p {\n  out x: col partials(sum, row, 65)\n}\n",
       "line 2, column 3: program 'p': operand 'x' has partial width 65, expected a multiple of 64, at most 1048576"},
      {"program p {\n  in x: row partials(sum, row)\n}\n",
       "line 2, column 3: program 'p': operand 'x' is a row of partials along a row, expected a col"},
      {"program p {\n  in x: row bf16 partials(sum, col)\n}\n",
       "line 2, column 3: program 'p': operand 'x' is partials of bf16, expected f32"},
  });
}

TEST(ParseErrors, NamesAndCalls) {
  expect_statement_errors({
      {"in late: tile", "line 8, column 3: an operand after a statement, expected all operands first"},
      {"b = siluu(a)",
       "line 8, column 7: unknown op 'siluu', expected one of add, sub, mul, div, neg, abs, min, max, exp, exp2, log, "
       "rcp, sqrt, rsqrt, square, sigmoid, tanh, erf, sin, cos, relu, eq, lt, le, select, clamp, acc, const, load, "
       "index, split, join, span_sum, reduce, round, select_col"},
      {"b = neg(missing)",
       "line 8, column 11: value 'missing' is not defined yet; values must be defined before they are used"},
      {"b = add(a)", "line 8, column 7: program 'p': add: got 1 arguments, expected 2"},
      {"b = neg(a, a)", "line 8, column 7: program 'p': neg: got 2 arguments, expected 1"},
      {"b = neg()", "line 8, column 11: got ')', expected a value's name"},
      {"b = neg a", "line 8, column 11: got 'a', expected '('"},
      {"a = neg(a)", "line 8, column 3: value 'a' is defined twice, expected each name once"},
      {"b neg(a)", "line 8, column 5: got 'neg', expected '='"},
      {"b = load(missing)", "line 8, column 12: unknown operand 'missing', expected one of x, c, y, z"},
      {"b = load(y)",
       "line 8, column 7: program 'p': load: operand 'y' is an output, expected an input: outputs are write-only; use "
       "the stored value instead"},
  });
}

TEST(ParseErrors, NumbersAndAttributes) {
  expect_statement_errors({
      {"b = const(1.2.3)", "line 8, column 13: got '1.2.3', expected a number, nan, inf or -inf"},
      {"b = const(1e999)",
       "line 8, column 13: '1e999' is out of a double's range, expected a number a double holds, or inf"},
      {"b = const(one)", "line 8, column 13: got 'one', expected a number, nan, inf or -inf"},
      {"b = acc(2)", "line 8, column 11: got 2, expected accumulator 0 or 1"},
      {"b = span_sum(a, 8.5)", "line 8, column 19: got '8.5', expected a span: a whole number"},
      {"b = span_sum(a, 99999999999999999999)",
       "line 8, column 19: '99999999999999999999' is out of range, expected a span of at most 64 bits"},
      {"b = index(rows)", "line 8, column 13: got 'rows', expected an axis: one of row, col"},
      {"b = index(row, 8)",
       "line 8, column 18: got '8', expected a pairing: halves(head, width) or interleaved(head, width)"},
      {"b = split(a, 0, thirds(8, 8))",
       "line 8, column 19: got 'thirds', expected a pairing: halves(head, width) or interleaved(head, width)"},
      {"b = split(a, 0, interleaved(8, 7))",
       "line 8, column 7: program 'p': split: got paired width 7 of head width 8, expected an even number of columns, "
       "at most the head"},
      {"b = reduce(a, sum, row, 32)",
       "line 8, column 7: program 'p': reduce: got partial width 32, expected a multiple of 64, at most 1048576"},
      {"b = round(a, i32)", "line 8, column 7: program 'p': round: got dtype i32, expected a floating type"},
      {"b = select_col(a, a)",
       "line 8, column 7: program 'p': select_col: argument 2 is a tile, expected a col: one column number for each "
       "row"},
      {"store(x, a)", "line 8, column 3: program 'p': store: operand 'x' is an input, expected an output"},
      {"store(z, a)",
       "line 8, column 3: program 'p': store: operand 'z' is partials, expected a whole value: only a reduce is stored "
       "as partials"},
      {"store(y, a) store(y, a)",
       "line 8, column 15: got 'store', expected the end of the line: each statement has its own"},
      {"store(y, a)", "line 9, column 1: program 'p': output 'z' is stored 0 times, expected once"},
  });
}

}  // namespace
}  // namespace coda
