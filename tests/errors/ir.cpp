// Every mistake src/ir refuses, and its text: building programs and data made by hand (ir_parse.cpp: text).
#include <gtest/gtest.h>

#include "coda/build.h"
#include "support/error_row.h"

namespace coda {
namespace {

using testing_support::expect_errors;

const Pairing kHalves{Pairing::Kind::Halves, 64, 64};
const Pairing kPartial{Pairing::Kind::Halves, 64, 32};
const Pairing kInterleaved{Pairing::Kind::Interleaved, 64, 64};

// A mistake made with the builder of a program 'p' and its accumulator.
template <class Use>
std::function<void()> with(Use use) {
  return [use] {
    Builder b("p");
    use(b, b.acc());
  };
}

TEST(BuildErrors, NamesHaveTheirText) {
  expect_errors({
      {typeid(ValueError), "program: name '2nd' is no identifier, expected letters, digits and _",
       [] { Builder("2nd"); }},
      {typeid(ValueError), "named: 'my value' is no name for a value, expected letters, digits and _, not v and digits",
       with([](Builder&, const Value& x) { (void)x.named("my value"); })},
      {typeid(ValueError), "named: 'v12' is no name for a value, expected letters, digits and _, not v and digits",
       with([](Builder&, const Value& x) { (void)x.named("v12"); })},
      {typeid(ValueError), "named: the Value is empty, expected a value of a Builder",
       [] { (void)Value().named("x"); }},
      {typeid(ValueError), "type: the Value is empty, expected a value of a Builder", [] { (void)Value().type(); }},
      {typeid(ValueError), "program 'p': operand name 'x.y' is no identifier, expected letters, digits and _",
       with([](Builder& b, const Value&) { b.load_tile("x.y"); })},
      {typeid(ValueError), "program 'p': operand 'x' is declared twice in different ways, expected each name once",
       with([](Builder& b, const Value&) {
         b.load_tile("x");
         b.load_row("x");
       })},
      {typeid(ValueError), "program 'p': store 'x': the name is taken by another operand, expected a new one",
       with([](Builder& b, const Value&) { b.store("x", b.load_tile("x")); })},
      {typeid(ValueError), "program 'p': operand 'out' is declared twice in different ways, expected each name once",
       with([](Builder& b, const Value& x) {
         b.store("out", x);
         b.load_tile("out");
       })},
  });
}

TEST(BuildErrors, OperandsHaveTheirText) {
  expect_errors({
      {typeid(ValueError), "program 'p': operand 'x' has period -1, expected 0 (none) to 1048576 columns",
       with([](Builder& b, const Value&) { b.load_row("x", {.period = -1}); })},
      {typeid(ValueError),
       "program 'p': operand 'x' is an input col with a period, expected an input tile or row: only those repeat along "
       "the columns",
       with([](Builder& b, const Value&) { b.load_col("x", {.period = 64}); })},
      {typeid(ValueError),
       "program 'p': operand 'x' is a col with a pairing, expected a tile or row: pairs are pairs of columns",
       with([](Builder& b, const Value&) { b.load_col("x", {.pairing = kHalves}); })},
      {typeid(ValueError),
       "program 'p': operand 'x' has paired width 33 of head width 64, expected an even number of columns, at most the "
       "head",
       with([](Builder& b, const Value&) { b.load_row("x", {.pairing = {Pairing::Kind::Interleaved, 64, 33}}); })},
      {typeid(ValueError), "program 'p': operand 'x' has a head but no pairing",
       with([](Builder& b, const Value&) { b.load_row("x", {.pairing = {Pairing::Kind::None, 64, 64}}); })},
      {typeid(ValueError), "program 'p': index: got period -1, expected 0 to 1048576",
       with([](Builder& b, const Value&) { b.col_index(-1); })},
      {typeid(ValueError), "program 'p': acc: got accumulator 2, expected 0, or 1 for the second matrix of a pair",
       with([](Builder& b, const Value&) { b.acc(2); })},
  });
}

TEST(BuildErrors, ArgumentsHaveTheirText) {
  expect_errors({
      {typeid(ValueError), "add: got 1 arguments, expected 2",
       with([](Builder&, const Value& x) { map(Op::Add, {x}); })},
      {typeid(ValueError),
       "add: argument 2 is an empty Value, expected a value of a Builder: values must be defined before they are used",
       with([](Builder&, const Value& x) { x + Value(); })},
      {typeid(ValueError), "add: got values of programs 'p' and 'q', expected values of one Builder",
       with([](Builder&, const Value& x) {
         Builder other("q");
         x + other.acc();
       })},
      {typeid(ValueError),
       "program 'p': add: argument 2 is a row, expected the columns of the others, a tile of halves(64, 64): split "
       "both the same way, or join them",
       with([](Builder& b, const Value& x) { split(x, kHalves).first + b.load_row("y"); })},
      {typeid(ValueError),
       "program 'p': add: argument 2 is a tile of interleaved(64, 64), expected the columns of the others, a tile of "
       "halves(64, 64): split both the same way, or join them",
       with([](Builder&, const Value& x) { split(x, kHalves).first + split(x, kInterleaved).first; })},
      {typeid(ValueError),
       "program 'p': exp: argument 1 is a partial col, unfinished inside this program: store it, and let the next "
       "program load it as partials",
       with([](Builder&, const Value& x) { exp(reduce_row(x, Reduction::Sum, 64)); })},
  });
}

TEST(BuildErrors, PairsHaveTheirText) {
  expect_errors({
      {typeid(ValueError),
       "program 'p': split: got paired width 63 of head width 64, expected an even number of columns, at most the head",
       with([](Builder&, const Value& x) { split(x, {Pairing::Kind::Interleaved, 64, 63}); })},
      {typeid(ValueError),
       "program 'p': split: got paired width 128 of head width 64, expected an even number of columns, at most the "
       "head",
       with([](Builder&, const Value& x) { split(x, {Pairing::Kind::Halves, 64, 128}); })},
      {typeid(ValueError), "program 'p': split: got head width 0, expected 1 to 1048576 columns",
       with([](Builder&, const Value& x) { split(x, {Pairing::Kind::Halves, 0, 0}); })},
      {typeid(ValueError), "program 'p': split: got no pairing, expected halves or interleaved",
       with([](Builder&, const Value& x) { split(x, {}); })},
      {typeid(ValueError), "program 'p': split: argument 1 is a col, expected a tile or row of full width",
       with([](Builder& b, const Value&) { split(b.load_col("c"), kHalves); })},
      {typeid(ValueError),
       "program 'p': split: argument 1 is a tile of halves(64, 64), expected a tile or row of full width: join it "
       "first",
       with([](Builder&, const Value& x) { split(split(x, kHalves).first, kHalves); })},
      {typeid(ValueError), "program 'p': join: argument 1 is a tile, expected a member of a pairing: split it first",
       with([](Builder&, const Value& x) { join(x, x); })},
      {typeid(ValueError), "program 'p': join: argument 2 is a tile, expected a member of halves(64, 64)",
       with([](Builder&, const Value& x) { join(split(x, kHalves).first, x); })},
      {typeid(ValueError), "program 'p': join: got a rest, but halves(64, 64) pairs every column: leave it out",
       with([](Builder&, const Value& x) { join(split(x, kHalves).first, split(x, kHalves).second, x); })},
      {typeid(ValueError),
       "program 'p': join: got no rest, but halves(64, 32) leaves 32 columns of each head unpaired: give the value "
       "they come from",
       with([](Builder&, const Value& x) { join(split(x, kPartial).first, split(x, kPartial).second); })},
      {typeid(ValueError), "program 'p': join: argument 3 is a scalar, expected a tile or row of full width",
       with([](Builder& b, const Value& x) {
         join(split(x, kPartial).first, split(x, kPartial).second, b.load_scalar("s"));
       })},
      {typeid(ValueError),
       "program 'p': span_sum: argument 1 is a tile of halves(64, 64), expected a tile or row of full width: join it "
       "first",
       with([](Builder&, const Value& x) { span_sum(split(x, kHalves).first, 64); })},
      {typeid(ValueError), "program 'p': span_sum: got span 0, expected 1 to 1048576",
       with([](Builder&, const Value& x) { span_sum(x, 0); })},
  });
}

TEST(BuildErrors, ReductionsHaveTheirText) {
  expect_errors({
      {typeid(ValueError), "program 'p': reduce: got partial width 96, expected a multiple of 64, at most 1048576",
       with([](Builder&, const Value& x) { reduce_row(x, Reduction::Sum, 96); })},
      {typeid(ValueError), "program 'p': reduce: argument 1 is a row, expected a tile of full width",
       with([](Builder& b, const Value&) { reduce_row(b.load_row("w"), Reduction::Sum, 64); })},
      {typeid(ValueError),
       "reduce_col: argument 1 is an empty Value, expected a value of a Builder: values must be defined before they "
       "are used",
       with([](Builder&, const Value&) { reduce_col(Value(), Reduction::Sum, 64); })},
      {typeid(TypeError), "program 'p': round: got dtype i32, expected a floating type",
       with([](Builder&, const Value& x) { round_to(x, DType::I32); })},
      {typeid(ValueError),
       "program 'p': select_col: argument 2 is a row, expected a col: one column number for each row",
       with([](Builder& b, const Value& x) { select_col(x, b.load_row("w")); })},
      {typeid(ValueError), "program 'p': select_col: argument 1 is a row, expected a tile of full width",
       with([](Builder& b, const Value&) { select_col(b.load_row("w"), b.load_col("c")); })},
      {typeid(TypeError), "program 'p': operand 'part' is partials of bf16, expected f32",
       with([](Builder& b, const Value& x) {
         b.store("part", reduce_row(x, Reduction::Sum, 64), {.dtype = DType::BF16});
       })},
      {typeid(NotImplementedError),
       "program 'p': store: operand 'part' accumulates, but a partial value can only be written: store it and add the "
       "results",
       with([](Builder& b, const Value& x) {
         b.store("part", reduce_row(x, Reduction::Sum, 64), {.accumulate = true});
       })},
      {typeid(ValueError),
       "program 'p': store 'out': argument 1 is an empty Value, expected a value of a Builder: values must be defined "
       "before they are used",
       with([](Builder& b, const Value&) { b.store("out", Value()); })},
      {typeid(ValueError),
       "program 'p': store 'out': the value belongs to program 'q', expected a value of this Builder",
       with([](Builder& b, const Value&) {
         Builder other("q");
         b.store("out", other.acc());
       })},
      {typeid(ValueError),
       "program 'p': nothing is stored, expected at least one store: a program acts only through its outputs",
       with([](Builder& b, const Value&) { (void)b.build(); })},
      {typeid(ValueError),
       "program 'p': its heads, spans and periods have no common multiple below 1099511627776 columns: use widths that "
       "divide one another",
       with([](Builder& b, const Value& x) {
         Value y = x;
         for (const std::int64_t span : {524287, 131071, 8191}) y = span_sum(y, span);
         b.store("out", y);
         (void)b.build();
       })},
  });
}

Program::Data stored_once() {
  return parse_program("program p {\n in x: tile\n out y: tile\n a = load(x)\n store(y, a)\n}").data();
}

using Data = Program::Data;

// A mistake in the data of a program that stores its input.
template <class Change>
std::function<void()> changed(Change change) {
  return [change] {
    Data data = stored_once();
    change(data);
    Program(std::move(data));
  };
}

TEST(ValidateErrors, NodesMadeByHandHaveTheirText) {
  expect_errors({
      {typeid(ValueError), "program: name '' is no identifier, expected letters, digits and _",
       changed([](Data& d) { d.name = ""; })},
      {typeid(ValueError),
       "program 'p': value name 'v1' is taken or no identifier, expected letters, digits and _, not v and digits",
       changed([](Data& d) { d.nodes[0].name = "v1"; })},
      {typeid(ValueError), "program 'p': two values are named 'a', expected each name once",
       changed([](Data& d) { d.nodes.insert(d.nodes.begin(), d.nodes[0]); })},
      {typeid(ValueError), "program 'p': two operands are named 'x', expected each name once",
       changed([](Data& d) { d.operands.push_back(d.operands[0]); })},
      {typeid(ValueError),
       "program 'p': store: argument 1 does not exist yet; values must be defined before they are used",
       changed([](Data& d) { d.nodes[1].args = {1}; })},
      {typeid(ValueError), "program 'p': store: got 0 arguments, expected 1",
       changed([](Data& d) { d.nodes[1].args = {}; })},
      {typeid(ValueError), "program 'p': load: is declared a col, but is a tile",
       changed([](Data& d) { d.nodes[0].type.shape = Shape::Col; })},
      {typeid(ValueError), "program 'p': load: got operand 2 of 2", changed([](Data& d) { d.nodes[0].index = 2; })},
      {typeid(ValueError),
       "program 'p': load: operand 'y' is an output, expected an input: outputs are write-only; use the stored value "
       "instead",
       changed([](Data& d) { d.nodes[0].index = 1; })},
      {typeid(ValueError), "program 'p': store: operand 'x' is an input, expected an output",
       changed([](Data& d) { d.nodes[1].index = 0; })},
  });
}

TEST(ValidateErrors, StoresAndOperandsMadeByHandHaveTheirText) {
  expect_errors({
      {typeid(ValueError), "program 'p': output 'y' is stored 0 times, expected once",
       changed([](Data& d) { d.nodes.pop_back(); })},
      {typeid(ValueError), "program 'p': output 'y' is stored 2 times, expected once",
       changed([](Data& d) { d.nodes.push_back(d.nodes[1]); })},
      {typeid(ValueError), "program 'p': store: operand 'y' is a row, but the value is a tile",
       changed([](Data& d) { d.operands[1].shape = Shape::Row; })},
      {typeid(ValueError),
       "program 'p': operand 'y' is an output tile with a period, expected an input tile or row: only those repeat "
       "along "
       "the columns",
       changed([](Data& d) { d.operands[1].period = 8; })},
      {typeid(ValueError), "program 'p': neg: argument 1 is a store, which has no value: use what it stores",
       changed([](Data& d) {
         d.nodes.push_back({.kind = NodeKind::Map, .type = {Shape::Tile}, .args = {1}, .op = Op::Neg});
       })},
      {typeid(ValueError), "program 'p': index: row numbers take no period and no pairing; only column numbers repeat",
       changed([](Data& d) {
         d.nodes.push_back({.kind = NodeKind::Index, .type = {Shape::Col}, .axis = Axis::Col, .period = 8});
       })},
      {typeid(ValueError),
       "program 'p': store: operand 'y' is partials, expected a whole value: only a reduce is stored as partials",
       changed([](Data& d) {
         d.operands[1].shape = Shape::Col;
         d.operands[1].partials = Partials{Reduction::Sum, Axis::Row, 64};
       })},
      {typeid(ValueError), "program 'p': operand 'y' is a tile of partials along a row, expected a col",
       changed([](Data& d) { d.operands[1].partials = Partials{Reduction::Sum, Axis::Row, 64}; })},
      {typeid(ValueError), "program 'p': store: operand 'y' is whole, expected partials: it stores a partial reduction",
       changed([](Data& d) {
         d.nodes[1] = {.kind = NodeKind::Reduce, .type = {Shape::Col, {}, true}, .args = {0}, .period = 64};
         d.nodes.push_back({.kind = NodeKind::Store, .type = {Shape::Col, {}, true}, .args = {1}, .index = 1});
         d.operands[1].shape = Shape::Col;
       })},
      {typeid(ValueError), "program 'p': store: operand 'y' holds other partials than the reduce makes",
       changed([](Data& d) {
         d.nodes[1] = {.kind = NodeKind::Reduce, .type = {Shape::Col, {}, true}, .args = {0}, .period = 64};
         d.nodes.push_back({.kind = NodeKind::Store, .type = {Shape::Col, {}, true}, .args = {1}, .index = 1});
         d.operands[1].shape = Shape::Col;
         d.operands[1].partials = Partials{Reduction::Sum, Axis::Row, 128};
       })},
  });
}

}  // namespace
}  // namespace coda
