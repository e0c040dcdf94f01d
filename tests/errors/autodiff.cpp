// Every mistake src/autodiff refuses, and its text.
#include <gtest/gtest.h>

#include "coda/build.h"
#include "coda/differentiate.h"
#include "coda/epilogues.h"
#include "support/error_row.h"

namespace coda {
namespace {

using testing_support::expect_errors;

const Pairing kHalves{Pairing::Kind::Halves, 8, 8};

// A program 'p' with two tile outputs.
Program two_outputs() {
  Builder b("p");
  const Value x = (b.acc() + b.load_row("bias")).named("x");
  b.store("first", x);
  b.store("second", exp(x));
  return b.build();
}

std::function<void()> differentiating(const Program& program, const std::vector<std::string>& wrt,
                                      const std::vector<Cotangent>& cotangents,
                                      const DifferentiateOptions& options = {}) {
  return [=] { (void)differentiate(program, wrt, cotangents, options); };
}

TEST(DifferentiateErrors, WhatIsDifferentiatedBy) {
  const Program program = two_outputs();
  const auto by = [&](const std::vector<std::string>& wrt) {
    return differentiating(program, wrt, {Cotangent::load("first"), Cotangent::load("second")});
  };
  Builder b("p");
  b.store("out", b.acc() * b.load_tile("acc0"));
  const Program ambiguous = b.build();
  expect_errors({
      {typeid(ValueError), "differentiate: program 'p': wrt is empty, expected some of acc0, bias", by({})},
      {typeid(ValueError), "differentiate: program 'p': wrt names 'weight', expected some of acc0, bias",
       by({"weight"})},
      {typeid(ValueError), "differentiate: program 'p': wrt names 'acc1', expected some of acc0, bias", by({"acc1"})},
      {typeid(ValueError), "differentiate: program 'p': wrt names 'first', expected some of acc0, bias", by({"first"})},
      {typeid(ValueError), "differentiate: program 'p': wrt names 'bias' twice, expected each once",
       by({"bias", "acc0", "bias"})},
      {typeid(ValueError),
       "differentiate: program 'p': wrt names 'acc0', an accumulator and an operand: rename the operand",
       differentiating(ambiguous, {"acc0"}, {Cotangent::load("out")})},
  });
}

TEST(DifferentiateErrors, InputsWithoutAGradient) {
  Builder b("p");
  const Value x = b.acc();
  const Value index = b.load_col("index", {.dtype = DType::I32}), limit = b.load_row("limit");
  const auto [first, second] = split(x, kHalves);
  const LoadOptions repeated{.period = 4, .pairing = kHalves};
  const Value turned = join(first * b.load_tile("cos", repeated), second * b.load_row("frequencies", repeated));
  b.store("out", turned * less(x, limit));
  b.store("selected", select_col(x, index));
  const auto by = [program = b.build()](const std::string& name) {
    return differentiating(program, {name}, {Cotangent::load("out"), Cotangent::load("selected")},
                           {.recompute_acc = true});
  };
  expect_errors({
      {typeid(TypeError),
       "differentiate: program 'p': wrt names 'index', which is i32, expected a floating operand: integers have no "
       "gradient",
       by("index")},
      {typeid(ValueError),
       "differentiate: program 'p': no gradient reaches 'limit': no output with a cotangent depends on it smoothly; "
       "leave it out of wrt",
       by("limit")},
      {typeid(NotImplementedError),
       "differentiate: program 'p': wrt names 'cos', a tile that repeats every 4 columns: sums over columns of a "
       "tile's entries are not implemented; leave it out",
       by("cos")},
      {typeid(NotImplementedError),
       "differentiate: program 'p': wrt names 'frequencies', a row of halves(8, 8): sums over rows of pairs of columns "
       "are not implemented; leave it out",
       by("frequencies")},
  });
}

TEST(DifferentiateErrors, Cotangents) {
  const auto from = [](const std::vector<Cotangent>& cotangents, const DifferentiateOptions& options = {}) {
    return differentiating(two_outputs(), {"acc0"}, cotangents, options);
  };
  const Cotangent first = Cotangent::load("first"), second = Cotangent::load("second");
  expect_errors({
      {typeid(ValueError),
       "differentiate: program 'p': output 'second' has no cotangent, expected one for each output: Cotangent::none "
       "where nothing depends on it",
       from({first})},
      {typeid(ValueError),
       "differentiate: program 'p': a cotangent is given for 'bias', which is no output: expected some of first, "
       "second",
       from({first, second, Cotangent::load("bias")})},
      {typeid(ValueError),
       "differentiate: program 'p': output 'first' is given none and another cotangent, expected one or the other",
       from({first, Cotangent::none("first"), second})},
      {typeid(ValueError),
       "differentiate: program 'p': output 'first' is given none and another cotangent, expected one or the other",
       from({Cotangent::none("first"), first, second})},
      {typeid(ValueError),
       "differentiate: program 'p': 2 cotangents arrive as the accumulator, expected at most one: load the others",
       from({Cotangent::acc("first"), Cotangent::acc("second")})},
      {typeid(ValueError),
       "differentiate: program 'p': the cotangent of 'first' arrives as the accumulator, which recompute_acc makes the "
       "forward's own: load it",
       from({Cotangent::acc("first"), second}, {.recompute_acc = true})},
      {typeid(ValueError),
       "differentiate: program 'p': the cotangent of 'first' is loaded from 'bias', the name of an operand of the "
       "program, expected another name",
       from({Cotangent::load("first", "bias"), second})},
      {typeid(ValueError),
       "differentiate: program 'residual_rms': the cotangent of 'sum_sq' arrives as the accumulator, a tile, but the "
       "output is a col: load it",
       differentiating(epilogues::residual_rms(), {"acc0"},
                       {Cotangent::load("x"), Cotangent::load("h"), Cotangent::acc("sum_sq")})},
  });
}

TEST(DifferentiateErrors, ComputedCotangents) {
  const auto computed = [](const std::function<void(Builder&)>& build) {
    Builder b("c");
    build(b);
    return differentiating(two_outputs(), {"acc0"},
                           {Cotangent::computed("first", b.build()), Cotangent::load("second")});
  };
  const std::string start = "differentiate: program 'p': the program that computes the cotangent of 'first' ";
  expect_errors({
      {typeid(ValueError), start + "reads an accumulator, expected loads alone",
       computed([](Builder& b) { b.store("d", b.acc()); })},
      {typeid(ValueError), start + "stores a col, expected a tile",
       computed([](Builder& b) { b.store("d", b.load_col("c")); })},
      {typeid(ValueError), start + "stores 2 values, expected 1", computed([](Builder& b) {
         b.store("d", b.load_tile("c"));
         b.store("e", b.load_tile("f"));
       })},
      {typeid(ValueError), start + "reads 'bias', also the name of an input of the forward program: rename one",
       computed([](Builder& b) { b.store("d", b.load_tile("c") * b.load_row("bias")); })},
  });
}

TEST(DifferentiateErrors, Options) {
  const auto with = [](const DifferentiateOptions& options) {
    return differentiating(two_outputs(), {"acc0"}, {Cotangent::load("first"), Cotangent::load("second")}, options);
  };
  expect_errors({
      {typeid(ValueError),
       "differentiate: program 'p': partial_width is 96, expected a multiple of 64, above 0: a partial result covers "
       "whole tiles",
       with({.partial_width = 96})},
      {typeid(ValueError),
       "differentiate: program 'p': partial_rows is 96, expected a multiple of 64, or 0 for as many as partial_width",
       with({.partial_rows = 96})},
      {typeid(ValueError), "differentiate: program 'p': saved names 'bias', expected tiles the program writes",
       with({.saved = {{"first", "bias"}}})},
      {typeid(ValueError), "differentiate: program 'p': remade names 'bias', expected tiles the program writes",
       with({.remade = {"bias"}})},
      {typeid(ValueError), "differentiate: program 'p': remade names 'first' twice, expected each once",
       with({.remade = {"first", "first"}})},
  });
}

// Multiplied out, in search of a way without z, the gradient by `sum` has a term that is a row, no tile: the gradient
// by out.
Program with_a_row_among_terms() {
  return parse_program(R"(program row_term {
    in sum: col partials(sum, row)
    out lse: col f32 partials(lse, row, 64)
    out out: row f32 partials(sum, col, 64)
    z = acc(0)
    v1 = reduce(z, lse, row, 64)
    store(lse, v1)
    v3 = load(sum)
    v4 = add(v3, z)
    v5 = split(v4, 0, halves(8, 8))
    v6 = join(v5, v5, halves(8, 8))
    v7 = reduce(v6, sum, col, 64)
    store(out, v7)
  })");
}

TEST(DifferentiateErrors, ValuesThatCannotBeHad) {
  const std::string cure =
      ", which is neither stored nor follows from what is: store it (with_saved), or let the accumulator be computed "
      "again (recompute_acc)";
  Builder unnamed("unnamed"), masked("masked"), shifted("shifted"), by_row("by_row"), divided("divided");
  unnamed.store("out", exp(unnamed.acc()) * tanh(unnamed.acc()));
  masked.store("z", masked.acc() * masked.load_col("mask"));
  masked.store("out", square(masked.acc()));
  const Value x = shifted.acc() + shifted.load_tile("residual");
  shifted.store("x", x);
  shifted.store("out", square(shifted.acc()));
  by_row.store("z", by_row.acc() * exp(by_row.load_row("row")));
  by_row.store("out", square(by_row.acc()));
  divided.store("z", exp(divided.load_col("col")) / divided.acc());
  divided.store("out", square(divided.acc()));
  const std::vector<Cotangent> out{Cotangent::load("out")};
  expect_errors({
      {typeid(ValueError), "differentiate: program 'bias_gelu': the backward needs value 'z'" + cure,
       differentiating(epilogues::bias("gelu"), {"acc0"}, out)},
      {typeid(ValueError), "differentiate: program 'unnamed': the backward needs value 'acc0'" + cure,
       differentiating(unnamed.build(), {"acc0"}, out)},
      {typeid(ValueError), "differentiate: program 'masked': the backward needs value 'acc0'" + cure,
       differentiating(masked.build(), {"acc0"}, {Cotangent::none("z"), Cotangent::load("out")})},
      {typeid(ValueError), "differentiate: program 'by_row': the backward needs value 'acc0'" + cure,
       differentiating(by_row.build(), {"acc0"}, {Cotangent::none("z"), Cotangent::load("out")})},
      {typeid(ValueError), "differentiate: program 'divided': the backward needs value 'acc0'" + cure,
       differentiating(divided.build(), {"acc0"}, {Cotangent::none("z"), Cotangent::load("out")})},
      {typeid(ValueError), "differentiate: program 'shifted': the backward needs value 'acc0'" + cure,
       differentiating(shifted.build(), {"acc0"}, {Cotangent::none("x"), Cotangent::load("out")})},
      {typeid(ValueError), "differentiate: program 'rms_rope': the backward needs value 'z'" + cure,
       differentiating(epilogues::rms_rope({{.count = 64}, {.head = 96}, true}), {"sum_sq"}, out)},
      {typeid(ValueError), "differentiate: program 'sigmoid': the backward needs value 'acc0'" + cure,
       differentiating(epilogues::sigmoid(), {"acc0"}, out, {.saved = std::vector<std::string>{}})},
      {typeid(ValueError), "differentiate: program 'sigmoid': the backward needs value 'acc0'" + cure,
       differentiating(epilogues::sigmoid(), {"acc0"}, out, {.remade = {"out"}})},
      {typeid(ValueError), "differentiate: program 'row_term': the backward needs value 'acc0'" + cure,
       differentiating(with_a_row_among_terms(), {"acc0", "sum"}, {Cotangent::load("lse"), Cotangent::load("out")})},
  });
}

TEST(DifferentiateErrors, Maxima) {
  Builder b("p");
  b.store("largest", reduce_row(b.acc(), Reduction::Max, 64));
  expect_errors({{typeid(NotImplementedError),
                  "differentiate: program 'p': reduce: output 'largest' is a maximum, whose derivative is not "
                  "implemented: give it Cotangent::none",
                  differentiating(b.build(), {"acc0"}, {Cotangent::load("largest")})}});
}

TEST(DifferentiateErrors, SavedValues) {
  const auto saving = [](const std::string& name) { return [name] { (void)with_saved(two_outputs(), {name}); }; };
  expect_errors({
      {typeid(ValueError), "with_saved: program 'p': 'first' is an operand already: choose a value by another name",
       saving("first")},
      {typeid(ValueError),
       "with_saved: program 'p': 'y' is no value of the program, expected the name of a tile, or acc0", saving("y")},
      {typeid(ValueError), "with_saved: program 'rms': 'rstd' is a col, expected the name of a tile, or acc0",
       [] { (void)with_saved(epilogues::rms({{.count = 64}}), {"rstd"}); }},
  });
}

}  // namespace
}  // namespace coda
