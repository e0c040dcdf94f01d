// Gradients against differences: every op of the table, every program of the library, and the cases whose texts are
// checked in.
#include <gtest/gtest.h>

#include "autodiff/backward_cases.h"
#include "autodiff/gradcheck.h"
#include "coda/build.h"
#include "coda/error.h"
#include "support/differences.h"
#include "support/evaluate.h"

namespace coda {
namespace {

using namespace testing_support;

void expect_right(const Verdict& verdict, int at_least) {
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_GE(verdict.compared, at_least);
}

// out = op(a, b, c) with argument `narrow` of another shape than a tile.
Program op_program(const OpRow& row, int narrow, Shape shape) {
  Builder b("op");
  std::vector<Value> args;
  for (int i = 0; i < row.arity; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    const Shape own = i == narrow ? shape : Shape::Tile;
    args.push_back(own == Shape::Tile  ? b.load_tile(name)
                   : own == Shape::Row ? b.load_row(name)
                   : own == Shape::Col ? b.load_col(name)
                                       : b.load_scalar(name));
  }
  b.store("out", map(row.op, args));
  return b.build();
}

TEST(Gradients, OfEveryOpByEveryArgumentOfEveryShape) {
  const std::uint64_t seed = fresh_seed();
  for (const OpRow& row : op_table())
    for (int argument = 0; argument < row.arity; ++argument) {
      SCOPED_TRACE(testing::Message() << row.name << " argument " << argument << " seed " << seed);
      const std::string name(1, static_cast<char>('a' + argument));
      const Domain domain = [&](const std::string& of) { return row.domain[of[0] - 'a']; };
      int compared = 0;
      for (const Shape shape : {Shape::Tile, Shape::Row, Shape::Col, Shape::Scalar}) {
        const Program program = op_program(row, argument, shape);
        const Verdict verdict = has_gradient(row.op, argument)
                                    ? check_gradients(program, {name}, loads(program), {}, {5, 16}, seed, domain)
                                    : check_flat(program, {name}, {5, 16}, seed);
        EXPECT_EQ(verdict.wrong, "");
        compared += verdict.compared;
      }
      EXPECT_GT(compared, 0);
    }
}

// A number is rarely 0, so that the test above looks at one branch. A row meets both.
TEST(Gradients, OfBothBranchesOfASelect) {
  Builder b("select");
  b.store("out", select(less(b.load_tile("a"), b.constant(0)), b.load_row("b"), b.load_row("c")));
  const Program program = b.build();
  expect_right(check_gradients(program, {"b", "c"}, loads(program), {}, {20, 16}, fresh_seed()), 6);
}

// No derivative is not a derivative of 0: differentiate says so.
TEST(Gradients, ConditionsHaveNone) {
  for (const OpRow& row : op_table())
    for (int argument = 0; argument < row.arity; ++argument) {
      if (has_gradient(row.op, argument)) continue;
      SCOPED_TRACE(testing::Message() << row.name << " argument " << argument);
      const Program program = op_program(row, argument, Shape::Tile);
      EXPECT_THROW(differentiate(program, {std::string(1, static_cast<char>('a' + argument))}, loads(program)),
                   ValueError);
    }
}

Extent extent_for(const Program& program) { return {5, std::max<std::int64_t>(program.column_granule(), 16) * 2}; }

// Cos and sin tables repeat, and frequencies are a row of pairs: their gradients are refused (tests/errors).
std::vector<std::string> wanted(const Program& program) {
  std::vector<std::string> names;
  for (const std::string& name : everything(program))
    if (name != "cos" && name != "sin" && name != "frequencies") names.push_back(name);
  return names;
}

TEST(Gradients, OfEveryProgramOfTheLibraryByEverything) {
  const std::uint64_t seed = fresh_seed();
  for (const auto& [name, program] : epilogues::library()) {
    SCOPED_TRACE(name);
    const DifferentiateOptions options{.recompute_acc = true};
    expect_right(check_gradients(program, wanted(program), loads(program), options, extent_for(program), seed), 2);
  }
}

TEST(Gradients, OfTheCasesWhoseTextsAreCheckedIn) {
  const std::uint64_t seed = fresh_seed();
  for (const BackwardCase& each : backward_cases()) {
    SCOPED_TRACE(each.name);
    std::vector<Cotangent> cotangents;
    for (const Cotangent& cotangent : each.cotangents) {
      const bool is_new = std::none_of(cotangents.begin(), cotangents.end(),
                                       [&](const Cotangent& c) { return c.output == cotangent.output; });
      if (!is_new) continue;
      cotangents.push_back(cotangent.source == Cotangent::Source::Computed ? Cotangent::load(cotangent.output)
                                                                           : cotangent);
    }
    expect_right(check_gradients(each.forward, each.wrt, cotangents, each.options, extent_for(each.forward), seed), 2);
  }
}

// Rows and columns of more than one partial.
TEST(Gradients, OfSumsOverSeveralPartials) {
  const std::uint64_t seed = fresh_seed();
  for (const BackwardCase& each : backward_cases()) {
    if (each.name != "rms_bias" && each.name != "scale" && each.name != "bias_gelu") continue;
    SCOPED_TRACE(each.name);
    expect_right(check_gradients(each.forward, each.wrt, each.cotangents, each.options, {130, 192}, seed), 4);
  }
}

// out = acc², where acc follows from the stored z alone.
TEST(Gradients, WhereTheAccumulatorFollowsFromWhatIsStored) {
  using Step = std::function<Value(Builder&, const Value&)>;
  const auto never_zero = [](Builder& b) { return exp(b.load_col("col")); };
  const std::vector<Step> steps{
      [](Builder&, const Value& x) { return x; },
      [](Builder&, const Value& x) { return -x; },
      [](Builder& b, const Value& x) { return x + b.load_row("row"); },
      [](Builder& b, const Value& x) { return b.load_col("col") + x; },
      [](Builder& b, const Value& x) { return x - b.load_row("row"); },
      [](Builder& b, const Value& x) { return b.load_scalar("scalar") - x; },
      [&](Builder& b, const Value& x) { return x * never_zero(b); },
      [&](Builder& b, const Value& x) { return -rsqrt(never_zero(b)) * x; },
      [&](Builder& b, const Value& x) { return x / never_zero(b); },
      [](Builder&, const Value& x) { return x * 0.75; },
      [&](Builder& b, const Value& x) { return 1.0 - (x * never_zero(b) + b.load_row("row")) / -3.0; },
  };
  const std::uint64_t seed = fresh_seed();
  for (const Step& step : steps) {
    Builder b("step");
    const Value acc = b.acc();
    b.store("z", step(b, acc));
    b.store("out", square(acc));
    const Program program = b.build();
    SCOPED_TRACE(to_text(program));
    expect_right(check_gradients(program, {"acc0"}, loads(program), {}, {}, seed), 3);
    const Backward backward = differentiate(program, {"acc0"}, loads(program));
    EXPECT_GE(backward.program.find_operand("z"), 0);
    EXPECT_EQ(backward.program.accumulators(), 0);
  }
}

TEST(Gradients, OfAnAccumulatorReadTwice) {
  Builder b("reads");
  b.store("z", b.acc() + b.load_row("row"));
  b.store("out", square(b.acc()) * b.load_row("row"));
  const Program program = b.build();
  expect_right(check_gradients(program, {"acc0", "row"}, loads(program), {}, {}, fresh_seed()), 6);
}

TEST(Gradients, OfAValueUsedTwice) {
  Builder b("twice");
  const Value x = (b.acc() * b.load_row("w")).named("x");
  const auto [first, second] = split(x, {Pairing::Kind::Halves, 8, 4});
  b.store("product", first * second + first);
  b.store("square", x * x + span_sum(x, 8) * x);
  b.store("sum", reduce_row(exp(x), Reduction::Sum, 64));
  b.store("x", x);
  const Program program = b.build();
  expect_right(check_gradients(program, {"acc0", "w"}, loads(program), {.recompute_acc = true}, {}, fresh_seed()), 4);
  const Program saved = with_saved(program, {"acc0"});
  std::vector<Cotangent> cotangents = loads(saved);
  cotangents.back() = Cotangent::none("acc0");
  expect_right(check_gradients(saved, {"acc0", "w"}, cotangents, {}, {}, fresh_seed()), 4);
}

// A row or col that meets tiles and is stored by itself has cotangents over two domains.
TEST(Gradients, OfVectorsUsedByThemselvesAndWithTiles) {
  Builder b("vectors");
  const Value row = b.load_row("row"), col = b.load_col("col"), scalar = b.load_scalar("scalar");
  b.store("tile", sin(b.acc() * row) * col + scalar);
  b.store("row_out", exp(row) * scalar);
  b.store("col_out", square(col) * scalar);
  b.store("scalar_out", scalar * 3.0);
  const Program program = b.build();
  for (const std::vector<std::string>& wrt :
       {std::vector<std::string>{"row", "col", "scalar"}, std::vector<std::string>{"acc0", "scalar"}})
    expect_right(check_gradients(program, wrt, loads(program), {.recompute_acc = true}, {}, fresh_seed()), 5);
}

// Their cotangents are over pairs, and over whole columns.
TEST(Gradients, OfVectorsUsedWithPairsAndByThemselves) {
  Builder b("pairs");
  const Value row = b.load_row("row"), col = b.load_col("col"), scalar = b.load_scalar("scalar"), z = b.acc();
  const Pairing pairing{Pairing::Kind::Halves, 8, 8};
  const auto [first, second] = split(z, pairing);
  const auto [first_of_row, second_of_row] = split(row, pairing);
  b.store("rotated", join(first * col * first_of_row, second * scalar - second_of_row));
  b.store("plain", z * (row + col * scalar));
  const Program program = b.build();
  expect_right(check_gradients(program, everything(program), loads(program), {.recompute_acc = true}, {}, fresh_seed()),
               8);
}

// What of the sum over a row does not vary along it is left to the program that finishes it.
TEST(Gradients, OfFinishedSumsThroughEveryFactor) {
  using Step = std::function<Value(const Value& sum, const Value& z, const Value& col)>;
  const Step steps[] = {[](const Value& s, const Value& z, const Value&) { return z - s; },
                        [](const Value& s, const Value& z, const Value&) { return z * -s; },
                        [](const Value& s, const Value& z, const Value& c) { return z * (s * c); },
                        [](const Value& s, const Value& z, const Value& c) { return z * (s / exp(c)); },
                        [](const Value& s, const Value& z, const Value& c) { return z / (s * exp(c)); }};
  for (const Step& step : steps) {
    Builder b("finished");
    b.store("out", step(b.load_partials("sum", Reduction::Sum, Axis::Row), b.acc(), b.load_col("col")));
    const Program program = b.build();
    SCOPED_TRACE(to_text(program));
    expect_right(check_gradients(program, {"sum"}, loads(program), {.recompute_acc = true}, {}, fresh_seed()), 3);
  }
}

TEST(Gradients, RoundingsPassTheCotangentThrough) {
  Builder b("rounded");
  b.store("out", round_to(b.acc(), DType::BF16) * 3.0);
  const Backward backward = differentiate(b.build(), {"acc0"}, {Cotangent::load("out")});
  EXPECT_NE(to_text(backward.program).find("const(3)"), std::string::npos);
  EXPECT_EQ(to_text(backward.program).find("round("), std::string::npos);
}

TEST(Gradients, AccumulatedOutputsPassTheCotangentThrough) {
  Builder b("accumulated");
  b.store("out", square(b.acc()), {.accumulate = true});
  const Program program = b.build();
  expect_right(check_gradients(program, {"acc0"}, loads(program), {.recompute_acc = true}, {}, fresh_seed()), 3);
}

TEST(Gradients, AnIgnoredTargetGivesNone) {
  const Program program = epilogues::lse({.ignore_index = 2});
  const Backward backward = differentiate(program, {"acc0"}, {Cotangent::none("lse"), Cotangent::load("target")});
  const std::vector<double> cotangent{5, 6, 7};
  Tensors tensors;
  tensors["targets"] = Tensor::empty({3}, DType::I32);
  tensors["d_target"] = Tensor::from({3}, cotangent, DType::F64);
  for (std::int32_t row = 0; row < 3; ++row) tensors["targets"].data<std::int32_t>()[row] = row + 1;
  const Tensor gradient = run_program(backward.program, tensors, {3, 4})["d_acc0"];
  const std::vector<double> expected{0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(entry(gradient, i), expected[static_cast<std::size_t>(i)]) << i;
}

TEST(Gradients, ANaNStaysAndStaysInItsRow) {
  for (const BackwardCase& each : backward_cases()) {
    SCOPED_TRACE(each.name);
    const Program backward = differentiate(each.forward, each.wrt, each.cotangents, each.options).program;
    const auto [rows, cols] = extent_for(each.forward);
    Grids inputs = random_inputs(backward, rows, cols, 1);
    for (double& sum : inputs["sum_sq"].data) sum = std::abs(sum);
    for (const char* cotangent : {"acc(0)", "d_out", "d_lse"})
      if (inputs.contains(cotangent))
        for (std::int64_t col = 0; col < inputs[cotangent].cols; ++col) inputs[cotangent].at(1, col) = std::nan("");
    for (const auto& [name, grid] : evaluate(backward, inputs, rows, cols)) {
      if (backward.operand(backward.find_operand(name)).shape != Shape::Tile) continue;
      if (each.forward.find_operand(name) >= 0) continue;  // made again: no cotangent reaches it
      int found = 0;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t col = 0; col < cols; ++col) {
          const bool is_nan = std::isnan(grid.at(row, col));
          EXPECT_FALSE(is_nan && row != 1) << name << " row " << row;
          found += is_nan;
        }
      EXPECT_GT(found, 0) << name;
    }
  }
}

// An output that was not kept is written again, to what the forward wrote.
TEST(Gradients, AnOutputIsMadeAgain) {
  const Program forward = epilogues::gated({.save_inputs = true});
  const Backward backward =
      differentiate(forward, {"acc0", "acc1"}, {Cotangent::acc("out"), Cotangent::none("gate"), Cotangent::none("up")},
                    {.remade = {"out"}});
  const Grids inputs = random_inputs(forward, 3, 70, 1);
  Grids kept = evaluate(forward, inputs, 3, 70);
  Grids read = random_inputs(backward.program, 3, 70, 2);
  for (const char* name : {"gate", "up"}) read[name] = kept[name];
  EXPECT_EQ(evaluate(backward.program, read, 3, 70)["out"].data, kept["out"].data);
}

TEST(ValuesToSave, AreNamedByTheAuthorElseAccumulators) {
  const std::vector<Cotangent> out{Cotangent::load("out")};
  using Names = std::vector<std::string>;
  EXPECT_EQ(values_to_save(epilogues::bias("gelu"), {"acc0", "bias"}, out), Names{"z"});
  EXPECT_EQ(values_to_save(epilogues::bias(), {"acc0", "bias"}, out), Names{});
  EXPECT_EQ(values_to_save(epilogues::sigmoid(), {"acc0"}, out), Names{});  // its output is enough
  Builder b("unnamed");
  b.store("out", square(b.acc(0) + b.load_row("row")) * b.acc(1));
  EXPECT_EQ(values_to_save(b.build(), {"acc0", "acc1", "row"}, out), (Names{"acc0", "acc1"}));
}

}  // namespace
}  // namespace coda
