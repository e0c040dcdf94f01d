// What bind makes of good input: extents, segments, operands as rank-2 views.
#include <gtest/gtest.h>

#include "coda/build.h"
#include "coda/problem.h"
#include "problem/products.h"

namespace coda {
namespace {

Tensor f32(std::initializer_list<std::int64_t> shape) { return Tensor::zeros(shape, DType::F32); }

Program identity(int accumulators = 1) {
  Builder b("identity");
  b.store("out", accumulators == 2 ? b.acc(0) + b.acc(1) : b.acc());
  return b.build();
}

Problem bind_parts(const Factor& a, const Factor& b, const std::vector<Tensor>& outs, int accumulators = 1) {
  std::vector<Segment> segments;
  for (const Tensor& out : outs) segments.push_back({identity(accumulators), {{"out", out}}});
  return coda::bind("gemm", a, b, segments);
}

std::vector<std::int64_t> extents(const Problem& problem) { return {problem.m, problem.n, problem.k}; }

std::vector<std::int64_t> place(const BoundSegment& segment) {
  return {segment.row, segment.col, segment.rows, segment.cols};
}

using Numbers = std::vector<std::int64_t>;

TEST(Bind, SingleAndPairHaveOneSegment) {
  const Tensor a = f32({4, 6}), b = f32({6, 8});
  EXPECT_EQ(extents(bind_parts(a, b, {f32({4, 8})})), (Numbers{4, 8, 6}));
  const Problem paired = bind_parts(a, pair(b, b), {f32({4, 8})}, 2);
  EXPECT_EQ(extents(paired), (Numbers{4, 8, 6}));
  EXPECT_EQ(products_of(paired, 0, 1)[0].b.data(), b.view().data());
}

TEST(Bind, ConcatPlacesSegments) {
  const Tensor a = f32({4, 6}), q = f32({6, 8}), k = f32({6, 0}), v = f32({6, 3});
  const Problem columns = bind_parts(a, concat({q, k, v}), {f32({4, 8}), f32({4, 0}), f32({4, 3})});
  EXPECT_EQ(extents(columns), (Numbers{4, 11, 6}));
  EXPECT_EQ(place(columns.segments[1]), (Numbers{0, 8, 4, 0}));
  EXPECT_EQ(place(columns.segments[2]), (Numbers{0, 8, 4, 3}));
  EXPECT_EQ(products_of(columns, 2, 0)[0].b.data(), v.view().data());

  const Tensor lower = f32({2, 6});
  const Problem rows = bind_parts(concat({a, lower}), q, {f32({4, 8}), f32({2, 8})});
  EXPECT_EQ(extents(rows), (Numbers{6, 8, 6}));
  EXPECT_EQ(place(rows.segments[1]), (Numbers{4, 0, 2, 8}));
  EXPECT_EQ(products_of(rows, 1, 0)[0].a.data(), lower.view().data());
}

TEST(Bind, ConcatKSumsDepths) {
  const Problem problem =
      bind_parts(concat_k({f32({4, 0}), f32({4, 5})}), concat_k({f32({0, 8}), f32({5, 8})}), {f32({4, 8})});
  EXPECT_EQ(extents(problem), (Numbers{4, 8, 5}));
  EXPECT_EQ(products_of(problem, 0, 0).size(), 2u);
}

TEST(Bind, ConcatOfAWithAPair) {
  const Tensor a = f32({4, 6}), b = f32({6, 8}), c = f32({6, 8});
  const Problem problem = bind_parts(concat({a, a}), pair(b, c), {f32({4, 8}), f32({4, 8})}, 2);
  EXPECT_EQ(products_of(problem, 1, 1)[0].b.data(), c.view().data());
}

TEST(Bind, EmptyExtentsNeedNoMemory) {
  const TensorView a(nullptr, DType::F32, {0, 6}), b(nullptr, DType::F32, {6, 0}), out(nullptr, DType::F32, {0, 0});
  const Segment segment{identity(), {{"out", out}}};
  EXPECT_EQ(extents(bind("gemm", a, b, {&segment, 1})), (Numbers{0, 0, 6}));
}

struct OperandCase {
  std::string text;
  Value (*load)(Builder& b);
  Numbers given;  ///< shape of the tensor, contiguous
  Numbers shape;  ///< of the bound view
  Numbers strides;
};

TEST(Bind, MakesOperandsRankTwo) {
  const auto row = [](Builder& b) { return b.load_row("x"); };
  const auto col = [](Builder& b) { return b.load_col("x"); };
  const auto scalar = [](Builder& b) { return b.load_scalar("x"); };
  const OperandCase cases[] = {
      {"tile", [](Builder& b) { return b.load_tile("x"); }, {4, 8}, {4, 8}, {8, 1}},
      {"row", row, {8}, {1, 8}, {0, 1}},
      {"row of rank 2", row, {1, 8}, {1, 8}, {0, 1}},
      {"col", col, {4}, {4, 1}, {1, 0}},
      {"col of rank 2", col, {4, 1}, {4, 1}, {1, 0}},
      {"scalar", scalar, {}, {1, 1}, {0, 0}},
      {"scalar of rank 1", scalar, {1}, {1, 1}, {0, 0}},
      {"periodic row", [](Builder& b) { return b.load_row("x", {.period = 2}); }, {2}, {1, 2}, {0, 1}},
      {"periodic tile", [](Builder& b) { return b.load_tile("x", {.period = 2}); }, {4, 2}, {4, 2}, {2, 1}},
      {"row partials", [](Builder& b) { return b.load_partials("x"); }, {4, 3}, {4, 3}, {3, 1}},
      {"one row partial", [](Builder& b) { return b.load_partials("x"); }, {4, 1}, {4, 1}, {1, 0}},
      {"column partials",
       [](Builder& b) { return b.load_partials("x", Reduction::Sum, Axis::Col); },
       {64, 8},
       {64, 8},
       {8, 1}},
  };
  for (const OperandCase& one : cases) {
    SCOPED_TRACE(one.text);
    Builder b("reads");
    b.store("out", b.acc() + one.load(b));
    const Tensor x = Tensor::empty(one.given, DType::F32), out = f32({4, 8}), factor_a = f32({4, 6}),
                 factor_b = f32({6, 8});
    const Segment segment{b.build(), {{"out", out}, {"x", x}}};
    const Problem problem = bind("gemm", factor_a, factor_b, {&segment, 1});
    const TensorView& bound = problem.segments[0].operands[0];
    EXPECT_EQ(Numbers(bound.shape().begin(), bound.shape().end()), one.shape);
    EXPECT_EQ(Numbers(bound.strides().begin(), bound.strides().end()), one.strides);
  }
}

TEST(OperandShape, FollowsTheOutput) {
  const Pairing pairing{Pairing::Kind::Interleaved, 10, 4};
  EXPECT_EQ(operand_shape({.shape = Shape::Tile}, 5, 20), (Numbers{5, 20}));
  EXPECT_EQ(operand_shape({.shape = Shape::Tile, .pairing = pairing}, 5, 20), (Numbers{5, 4}));
  EXPECT_EQ(operand_shape({.shape = Shape::Row, .period = 10}, 5, 20), (Numbers{10}));
  EXPECT_EQ(operand_shape({.shape = Shape::Col}, 5, 20), (Numbers{5}));
  EXPECT_EQ(operand_shape({.shape = Shape::Scalar}, 5, 20), Numbers{});
  EXPECT_EQ(operand_shape({.partials = Partials{Reduction::Sum, Axis::Row, 64}}, 5, 65), (Numbers{5, 2}));
  EXPECT_EQ(operand_shape({.partials = Partials{Reduction::Sum, Axis::Col, 64}}, 64, 20), (Numbers{1, 20}));
  EXPECT_EQ(operand_shape({.partials = Partials{Reduction::Sum, Axis::Col, 0}}, 64, 20), (Numbers{-1, 20}));
  EXPECT_EQ(operand_shape({.partials = Partials{Reduction::Sum, Axis::Row, 64}}, 5, 0), (Numbers{5, 0}));
}

}  // namespace
}  // namespace coda
