// Every node kind of the reference against small cases worked out by hand or written as a formula.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "coda/build.h"
#include "coda/problem.h"
#include "cpu/reference.h"

namespace coda {
namespace {

using testing::ElementsAre;
using testing::NanSensitiveDoubleEq;
using Numbers = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// 0, 1, 2, …
Tensor counting(std::initializer_list<std::int64_t> shape, DType dtype = DType::F32) {
  Numbers values(
      static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies{})));
  std::iota(values.begin(), values.end(), 0.0);
  return Tensor::from(shape, values, dtype);
}

Numbers numbers(const Tensor& tensor) {
  Numbers values;
  for (std::int64_t i = 0; i < tensor.view().size(); ++i)
    values.push_back(load_element(tensor.view().dtype(), tensor.view().data(), i));
  return values;
}

// What `value` stores over an output of rows × cols, in double.
Numbers evaluate(std::int64_t rows, std::int64_t cols, const std::function<Value(Builder&)>& value,
                 Operands operands = {}) {
  Builder b("node");
  b.store("out", value(b));
  const Program program = b.build();
  const Operand& output = program.operand(program.find_operand("out"));
  const Tensor out = Tensor::empty(operand_shape(output, rows, cols), output.partials ? DType::F32 : DType::F64);
  for (std::int64_t i = 0; i < out.view().size(); ++i) store_element(out.view().dtype(), out.view().data(), i, kNaN);
  operands.push_back({"out", out});
  const Problem problem = bind_elementwise("elementwise", rows, cols, {program, operands});
  cpu::reference_backend().plan(problem)->run(problem);
  return numbers(out);
}

TEST(ReferenceNodes, Const) {
  EXPECT_EQ(evaluate(2, 2, [](Builder& b) { return b.constant(0.1); }), Numbers{0.1});
}

TEST(ReferenceNodes, LoadsOfEveryShape) {
  EXPECT_EQ(evaluate(2, 3, [](Builder& b) { return b.load_tile("x"); }, {{"x", counting({2, 3})}}),
            (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(evaluate(2, 3, [](Builder& b) { return b.load_row("x"); }, {{"x", counting({1, 3})}}), (Numbers{0, 1, 2}));
  EXPECT_EQ(evaluate(2, 3, [](Builder& b) { return b.load_col("x"); }, {{"x", counting({2})}}), (Numbers{0, 1}));
  EXPECT_EQ(evaluate(2, 3, [](Builder& b) { return b.load_scalar("x"); }, {{"x", Tensor::from({}, Numbers{7})}}),
            Numbers{7});
}

TEST(ReferenceNodes, LoadsOfEveryDtype) {
  for (const DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I32, DType::I64})
    EXPECT_EQ(evaluate(3, 1, [](Builder& b) { return b.load_col("x"); }, {{"x", counting({3}, dtype)}}),
              (Numbers{0, 1, 2}))
        << name_of(dtype);
}

TEST(ReferenceNodes, LoadsWithAPeriod) {
  EXPECT_EQ(evaluate(1, 6, [](Builder& b) { return b.load_row("x", {.period = 3}); }, {{"x", counting({3})}}),
            (Numbers{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(evaluate(2, 4, [](Builder& b) { return b.load_tile("x", {.period = 2}); }, {{"x", counting({2, 2})}}),
            (Numbers{0, 1, 0, 1, 2, 3, 2, 3}));
}

TEST(ReferenceNodes, Index) {
  EXPECT_EQ(evaluate(3, 2, [](Builder& b) { return b.row_index(); }), (Numbers{0, 1, 2}));
  EXPECT_EQ(evaluate(3, 4, [](Builder& b) { return b.col_index(); }), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(evaluate(3, 7, [](Builder& b) { return b.col_index(3); }), (Numbers{0, 1, 2, 0, 1, 2, 0}));
  const Pairing pairing{Pairing::Kind::Interleaved, 6, 4};
  EXPECT_EQ(evaluate(1, 12, [&](Builder& b) { return b.col_index(0, pairing); }), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(evaluate(1, 12, [&](Builder& b) { return b.col_index(2, pairing); }), (Numbers{0, 1, 0, 1}));
  // Row numbers go on over blocks of rows.
  const Numbers rows = evaluate(200, 1, [](Builder& b) { return b.row_index(); });
  EXPECT_EQ(rows[64], 64);
  EXPECT_EQ(rows[199], 199);
}

TEST(ReferenceNodes, MapBroadcasts) {
  EXPECT_EQ(evaluate(2, 3, [](Builder& b) { return b.load_row("r") * 10.0 + b.load_col("c"); },
                     {{"r", counting({3})}, {"c", counting({2})}}),
            (Numbers{0, 10, 20, 1, 11, 21}));
  EXPECT_EQ(
      evaluate(1, 3,
               [](Builder& b) { return select(less(b.load_row("r"), b.constant(1)), b.constant(5), b.load_row("r")); },
               {{"r", counting({3})}}),
      (Numbers{5, 1, 2}));
}

TEST(ReferenceNodes, Split) {
  const auto member = [](Pairing pairing, int which) {
    return [=](Builder& b) {
      const auto [first, second] = split(b.load_row("x"), pairing);
      return which == 0 ? first : second;
    };
  };
  const Tensor counted = counting({12});
  const Operands x = {{"x", counted}};
  const Pairing halves{Pairing::Kind::Halves, 6, 4}, interleaved{Pairing::Kind::Interleaved, 6, 4};
  EXPECT_EQ(evaluate(1, 12, member(halves, 0), x), (Numbers{0, 1, 6, 7}));
  EXPECT_EQ(evaluate(1, 12, member(halves, 1), x), (Numbers{2, 3, 8, 9}));
  EXPECT_EQ(evaluate(1, 12, member(interleaved, 0), x), (Numbers{0, 2, 6, 8}));
  EXPECT_EQ(evaluate(1, 12, member(interleaved, 1), x), (Numbers{1, 3, 7, 9}));
}

TEST(ReferenceNodes, JoinSwapsPairsAndTakesTheRest) {
  const auto swapped = [](Pairing pairing) {
    return [=](Builder& b) {
      const Value x = b.load_row("x");
      const auto [first, second] = split(x, pairing);
      return pairing.has_rest() ? join(second, first, x * 100.0) : join(second, first);
    };
  };
  const Tensor counted = counting({8});
  const Operands x = {{"x", counted}};
  EXPECT_EQ(evaluate(1, 8, swapped({Pairing::Kind::Halves, 4, 4}), x), (Numbers{2, 3, 0, 1, 6, 7, 4, 5}));
  EXPECT_EQ(evaluate(1, 8, swapped({Pairing::Kind::Interleaved, 4, 4}), x), (Numbers{1, 0, 3, 2, 5, 4, 7, 6}));
  EXPECT_EQ(evaluate(1, 8, swapped({Pairing::Kind::Halves, 4, 2}), x), (Numbers{1, 0, 200, 300, 5, 4, 600, 700}));
}

TEST(ReferenceNodes, HalfWidthOperands) {
  const Pairing pairing{Pairing::Kind::Halves, 4, 4};
  const auto scaled = [&](Builder& b) {
    const auto [first, second] = split(b.load_tile("x"), pairing);
    const Value factor = b.load_row("f", {.period = 2, .pairing = pairing});
    return join(first * factor, second * b.load_tile("g", {.pairing = pairing}));
  };
  EXPECT_EQ(evaluate(1, 8, scaled,
                     {{"x", counting({1, 8})},
                      {"f", Tensor::from({2}, Numbers{10, 100})},
                      {"g", Tensor::from({1, 4}, Numbers{1, 2, 3, 4})}}),
            (Numbers{0, 100, 2, 6, 40, 500, 18, 28}));
}

TEST(ReferenceNodes, SpanReduce) {
  EXPECT_EQ(evaluate(2, 4, [](Builder& b) { return span_sum(b.load_tile("x"), 2); }, {{"x", counting({2, 4})}}),
            (Numbers{1, 1, 5, 5, 9, 9, 13, 13}));
  EXPECT_EQ(evaluate(2, 4, [](Builder& b) { return span_sum(b.load_row("x"), 4); }, {{"x", counting({4})}}),
            (Numbers{6, 6, 6, 6}));
}

TEST(ReferenceNodes, ReduceCountsExistingEntriesAlone) {
  const auto ones = [](Builder& b) { return b.load_tile("x") * 0.0 + 1.0; };
  const Tensor counted = counting({130, 70});
  const Operands x = {{"x", counted}};
  const Numbers by_row = evaluate(130, 70, [&](Builder& b) { return reduce_row(ones(b), Reduction::Sum, 64); }, x);
  ASSERT_EQ(by_row.size(), 260u);
  EXPECT_EQ(Numbers(by_row.end() - 2, by_row.end()), (Numbers{64, 6}));
  for (const std::int64_t width : {64, 128, 192}) {
    const Numbers by_col = evaluate(130, 70, [&](Builder& b) { return reduce_col(ones(b), Reduction::Sum, width); }, x);
    ASSERT_EQ(by_col.size(), static_cast<std::size_t>((130 + width - 1) / width * 70));
    EXPECT_EQ(by_col.front(), std::min<double>(130, static_cast<double>(width)));
    EXPECT_EQ(std::accumulate(by_col.begin(), by_col.end(), 0.0), 130 * 70);
  }
}

TEST(ReferenceNodes, ReduceMeansWhatItSays) {
  const auto reduced = [](Reduction op, Numbers values) {
    const auto cols = static_cast<std::int64_t>(values.size());
    return evaluate(1, cols, [&](Builder& b) { return reduce_row(b.load_tile("x"), op, 64); },
                    {{"x", Tensor::from({1, cols}, values)}})[0];
  };
  EXPECT_EQ(reduced(Reduction::Sum, {1, 2, 3.5}), 6.5);
  EXPECT_EQ(reduced(Reduction::Max, {-3, -1, -2}), -1);
  EXPECT_EQ(reduced(Reduction::Max, {-kInf}), -kInf);
  EXPECT_TRUE(std::isnan(reduced(Reduction::Max, {1, kNaN, 2})));
  EXPECT_EQ(reduced(Reduction::LogSumExp, {0, 0}), static_cast<float>(std::log(2.0)));
  EXPECT_EQ(reduced(Reduction::LogSumExp, {1000, 1000 + std::log(3.0f)}), static_cast<float>(1000 + std::log(4.0)));
  EXPECT_EQ(reduced(Reduction::LogSumExp, {-kInf, 5, -kInf}), 5);
  EXPECT_EQ(reduced(Reduction::LogSumExp, {-kInf, -kInf}), -kInf);
  EXPECT_EQ(reduced(Reduction::LogSumExp, {kInf, 1, kInf}), kInf);
  EXPECT_TRUE(std::isnan(reduced(Reduction::LogSumExp, {1, kNaN, kInf})));
  EXPECT_TRUE(std::isnan(reduced(Reduction::LogSumExp, {kInf, kNaN})));
}

TEST(ReferenceNodes, LoadingPartialsFinishesThem) {
  const auto finished = [](Reduction op, Axis axis, std::initializer_list<std::int64_t> shape, Numbers values) {
    return evaluate(2, 3, [&](Builder& b) { return b.load_partials("x", op, axis); },
                    {{"x", Tensor::from(shape, values)}});
  };
  EXPECT_EQ(finished(Reduction::Sum, Axis::Row, {2, 3}, {1, 2, 3, 10, 20, 30}), (Numbers{6, 60}));
  EXPECT_EQ(finished(Reduction::Sum, Axis::Col, {2, 3}, {1, 2, 3, 10, 20, 30}), (Numbers{11, 22, 33}));
  EXPECT_EQ(finished(Reduction::Max, Axis::Row, {2, 1}, {-4, -5}), (Numbers{-4, -5}));
  EXPECT_THAT(finished(Reduction::Max, Axis::Row, {2, 2}, {1, kNaN, 3, 2}), ElementsAre(NanSensitiveDoubleEq(kNaN), 3));
  EXPECT_THAT(finished(Reduction::LogSumExp, Axis::Row, {2, 2}, {-kInf, 3, -kInf, -kInf}), ElementsAre(3, -kInf));
  EXPECT_THAT(finished(Reduction::LogSumExp, Axis::Row, {2, 2}, {800, 800, 0, 0}),
              ElementsAre(800 + std::log(2.0), std::log(2.0)));
}

TEST(ReferenceNodes, PartialsBelongToTheirRow) {
  const Tensor partials = counting({130, 2});
  const Numbers sums = evaluate(130, 1, [](Builder& b) { return b.load_partials("x"); }, {{"x", partials}});
  for (int row = 0; row < 130; ++row) EXPECT_EQ(sums[static_cast<std::size_t>(row)], 4 * row + 1);
}

// Finishing what another program stored equals reducing the whole row.
TEST(ReferenceNodes, PartialsOfAWholeRowFinishToItsReduction) {
  Numbers values;
  for (int i = 0; i < 200; ++i) values.push_back(std::sin(i) * 20);
  const Tensor x = Tensor::from({1, 200}, values, DType::F64);
  const Numbers partials =
      evaluate(1, 200, [](Builder& b) { return reduce_row(b.load_tile("x"), Reduction::LogSumExp, 64); }, {{"x", x}});
  const Numbers whole = evaluate(1, 1, [](Builder& b) { return b.load_partials("p", Reduction::LogSumExp); },
                                 {{"p", Tensor::from({1, 4}, partials)}});
  double sum = 0;
  for (const double value : values) sum += std::exp(value);
  EXPECT_NEAR(whole[0], std::log(sum), 1e-5);
}

TEST(ReferenceNodes, RoundRoundsOnce) {
  // 1 + 2^-8 + 2^-30 lies above the tie between 1 and 1 + 2^-7; an intermediate float would fall onto it, and to 1.
  const double above_tie = 1 + 0x1p-8 + 0x1p-30;
  EXPECT_EQ(evaluate(1, 1, [&](Builder& b) { return round_to(b.constant(above_tie), DType::BF16); }),
            Numbers{1 + 0x1p-7});
  EXPECT_EQ(evaluate(1, 1, [&](Builder& b) { return round_to(b.constant(1 + 0x1p-8), DType::BF16); }), Numbers{1});
  EXPECT_EQ(evaluate(1, 1, [&](Builder& b) { return round_to(b.constant(1e6), DType::F16); }), Numbers{kInf});
  EXPECT_EQ(evaluate(1, 1, [&](Builder& b) { return round_to(b.constant(0.1), DType::F32); }),
            Numbers{static_cast<double>(0.1f)});
}

TEST(ReferenceNodes, SelectCol) {
  const auto selected = [](std::optional<std::int64_t> ignored, DType dtype, Numbers index) {
    return evaluate(3, 4, [&](Builder& b) { return select_col(b.load_tile("x"), b.load_col("index"), ignored); },
                    {{"x", counting({3, 4})}, {"index", Tensor::from({3}, index, dtype)}});
  };
  EXPECT_EQ(selected({}, DType::I32, {3, 0, 2}), (Numbers{3, 4, 10}));
  EXPECT_EQ(selected(-100, DType::I64, {-100, 1, -100}), (Numbers{0, 5, 0}));
  EXPECT_EQ(selected(0, DType::I64, {0, 1, 0}), (Numbers{0, 5, 0}));
}

}  // namespace
}  // namespace coda
