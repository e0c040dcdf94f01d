// How the reference stores: one rounding, accumulation, outputs in the place of inputs, empty outputs.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "coda/build.h"
#include "coda/problem.h"
#include "cpu/reference.h"
#include "support/matrices.h"

namespace coda {
namespace {

using namespace testing_support;
using Numbers = std::vector<double>;

void run_pass(std::int64_t rows, std::int64_t cols, const Program& program, const Operands& operands) {
  const Problem problem = bind_elementwise("elementwise", rows, cols, {program, operands});
  cpu::reference_backend().plan(problem)->run(problem);
}

TEST(ReferenceStores, RoundOnceToTheDtypeOfTheOutput) {
  Builder b("constants");
  b.store("out", b.constant(1 + 0x1p-8 + 0x1p-30) + b.row_index() * 0.0 + b.col_index() * 0.0);
  for (const auto& [dtype, expected] : {std::pair{DType::BF16, 1 + 0x1p-7}, std::pair{DType::F32, 1 + 0x1p-8},
                                        std::pair{DType::F64, 1 + 0x1p-8 + 0x1p-30}}) {
    const Matrix out = make_output(2, 3, dtype);
    run_pass(2, 3, b.build(), {{"out", out.view}});
    expect_canaries(out);
    EXPECT_EQ(values_of(out.view), Numbers(6, expected)) << name_of(dtype);
  }
}

// What is computed from a stored value sees it before the rounding.
TEST(ReferenceStores, DoNotRoundTheValueItself) {
  Builder b("both");
  const Value x = b.constant(1 + 0x1p-20) + b.row_index() * 0.0;
  b.store("rounded", x);
  b.store("rest", x - 1.0);
  const Matrix rounded = make_output(1, 1, DType::BF16), rest = make_output(1, 1, DType::F32);
  run_pass(1, 1, b.build(), {{"rounded", rounded.view}, {"rest", rest.view}});
  EXPECT_EQ(rounded.view.at(0, 0), 1);
  EXPECT_EQ(rest.view.at(0, 0), 0x1p-20);
}

TEST(ReferenceStores, AccumulateAddsThenRoundsOnce) {
  Builder b("sums");
  b.store("tile", b.load_tile("x"), {.accumulate = true});
  b.store("row", b.load_row("r"), {.accumulate = true});
  b.store("scalar", b.constant(2), {.accumulate = true});
  // In bf16 257 lies between 256 and 258 and goes to 256; the addend rounded by itself, 1, would give that. The sum is
  // above the tie.
  const Tensor x = Tensor::from({130, 1}, Numbers(130, 1 + 0x1p-9), DType::F32);
  const Matrix tile = make_matrix(130, 1, DType::BF16, Layout::Padded),
               scalar = make_matrix(1, 1, DType::F32, Layout::Plain);
  for (std::int64_t r = 0; r < 130; ++r) set(tile.view, r, 0, 256);
  set(scalar.view, 0, 0, 40);
  const Tensor row = Tensor::from({1}, Numbers{10}, DType::F64), addend = Tensor::from({1}, Numbers{0.25});
  const TensorView one(scalar.view.data(), DType::F32, {});
  run_pass(130, 1, b.build(), {{"x", x}, {"r", addend}, {"tile", tile.view}, {"row", row}, {"scalar", one}});
  expect_canaries(tile);
  EXPECT_EQ(values_of(tile.view), Numbers(130, 258));
  EXPECT_EQ(load_element(DType::F64, row.view().data(), 0), 10.25);  // once, though 130 rows are three blocks
  EXPECT_EQ(scalar.view.at(0, 0), 42);
}

TEST(ReferenceStores, RowsAndPartialsStayInsideTheirViews) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  Builder b("outputs");
  const Value x = b.load_tile("x");
  b.store("tile", x * 2.0);
  b.store("row", b.load_row("r") + 1.0);
  b.store("col", b.load_col("c") + 1.0);
  b.store("sums", reduce_row(x, Reduction::Sum, 64));
  b.store("largest", reduce_col(x, Reduction::Max, 128));
  const Program program = b.build();
  for (const Layout layout : {Layout::Padded, Layout::Stepped, Layout::Transposed, Layout::RowsReversed}) {
    const Matrix in = random_integers(random, 150, 70, DType::BF16, layout);
    const Matrix r = random_integers(random, 1, 70, DType::F32, layout),
                 c = random_integers(random, 150, 1, DType::I64, layout);
    const Matrix tile = make_output(150, 70, DType::BF16, layout), row = make_output(1, 70, DType::F16, layout);
    const Matrix col = make_output(150, 1, DType::F32, layout), sums = make_output(150, 2, DType::F32, layout);
    const Matrix largest = make_output(2, 70, DType::F32, layout);
    run_pass(150, 70, program,
             {{"x", in.view},
              {"r", r.view},
              {"c", c.view},
              {"tile", tile.view},
              {"row", row.view},
              {"col", col.view},
              {"sums", sums.view},
              {"largest", largest.view}});
    for (const Matrix* out : {&tile, &row, &col, &sums, &largest}) {
      expect_canaries(*out);
      for (const double value : values_of(out->view)) ASSERT_FALSE(std::isnan(value)) << "seed " << seed;
    }
    double sum = 0, most = -10;
    for (std::int64_t j = 64; j < 70; ++j) sum += in.view.at(140, j);
    for (std::int64_t i = 128; i < 150; ++i) most = std::max(most, in.view.at(i, 69));
    EXPECT_EQ(sums.view.at(140, 1), sum) << "seed " << seed;
    EXPECT_EQ(largest.view.at(1, 69), most) << "seed " << seed;
  }
}

// Loads come before every store, whatever the order of the nodes.
TEST(ReferenceStores, InPlace) {
  Builder b("reverse");
  const Pairing pairing{Pairing::Kind::Halves, 4, 4};
  const auto [first, second] = split(b.load_tile("x"), pairing);
  b.store("out", join(second, first));
  b.store("again", b.load_tile("x") + 0.0);
  const Tensor x = Tensor::from({1, 4}, Numbers{0, 1, 2, 3}), again = Tensor::zeros({1, 4}, DType::F32);
  run_pass(1, 4, b.build(), {{"x", x}, {"out", x}, {"again", again}});
  EXPECT_EQ(values_of(x), (Numbers{2, 3, 0, 1}));
  EXPECT_EQ(values_of(again), (Numbers{0, 1, 2, 3}));
}

TEST(ReferenceStores, OfEmptyOutputs) {
  Builder b("empty");
  b.store("out", b.acc());
  b.store("row", b.load_row("bias") + 1.0);
  b.store("sums", reduce_col(b.acc(), Reduction::Sum, 64));
  const Matrix row = make_output(1, 3, DType::F32);
  const Tensor bias = Tensor::zeros({3}, DType::F32), none = Tensor::empty({0, 3}, DType::F32);
  const Segment segment{b.build(), {{"bias", bias}, {"out", none}, {"row", row.view}, {"sums", none}}};
  const Tensor a = Tensor::empty({0, 5}, DType::F32), weight = Tensor::zeros({5, 3}, DType::F32);
  const Problem problem = bind("gemm", a, weight, {&segment, 1});
  cpu::reference_backend().plan(problem)->run(problem);
  expect_canaries(row);
  EXPECT_EQ(values_of(row.view), Numbers(3, 1));  // a row is written for an output without rows, too
}

TEST(ReferenceStores, WithoutDepthTheEpilogueStillRuns) {
  Builder b("bias");
  b.store("out", b.acc() + b.load_row("bias"));
  const Matrix out = make_output(2, 3, DType::F32);
  const Tensor bias = Tensor::from({3}, Numbers{1, 2, 3});
  const Segment segment{b.build(), {{"bias", bias}, {"out", out.view}}};
  const Tensor a = Tensor::empty({2, 0}, DType::F32), weight = Tensor::empty({0, 3}, DType::F32);
  const Problem problem = bind("gemm", a, weight, {&segment, 1});
  cpu::reference_backend().plan(problem)->run(problem);
  EXPECT_EQ(values_of(out.view), (Numbers{1, 2, 3, 1, 2, 3}));
}

}  // namespace
}  // namespace coda
