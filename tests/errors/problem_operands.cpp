// What src/problem refuses of the tensors bound to operands, and its text.
#include <gtest/gtest.h>

#include "problem_calls.h"
#include "support/error_row.h"

namespace coda {
namespace {

using namespace testing_support;

// A program that stores op(x) of one input, so that the input's shape can be the mistake.
Program reads(const std::function<Value(Builder&)>& load) {
  Builder b("reads");
  b.store("out", load(b) + 0.0);
  return b.build();
}

ErrorRow shape_row(std::string message, const std::function<Value(Builder&)>& load, Tensor x, std::int64_t rows = 4,
                   std::int64_t cols = 8) {
  return {typeid(ValueError), "elementwise: operand 'x' has shape " + message,
          [=] { bind_pass(rows, cols, reads(load), {{"x", x}}); }};
}

const Pairing kPartHalves{Pairing::Kind::Halves, 4, 2};

TEST(BindErrors, OfShapesHaveTheirText) {
  const auto tile = [](Builder& b) { return b.load_tile("x"); };
  const auto row = [](Builder& b) { return b.load_row("x"); };
  const auto col = [](Builder& b) { return b.load_col("x"); };
  const auto scalar = [](Builder& b) { return b.load_scalar("x"); };
  expect_errors({
      shape_row("[8, 4], expected [4, 8] (M, N): a tile covers the whole output", tile, f32({8, 4})),
      shape_row("[8], expected [4, 8] (M, N): a tile covers the whole output", tile, f32({8})),
      shape_row("[9], expected [8] (N): a row vector spans the columns of the output", row, f32({9})),
      // Also when M = N: the shape, not the count, says row or column.
      shape_row("[8, 1], expected [8] (N): a row vector spans the columns of the output", row, f32({8, 1}), 8, 8),
      shape_row("[1, 8], expected [8] (M): a column vector spans the rows of the output", col, f32({1, 8}), 8, 8),
      shape_row("[3], expected [4] (M): a column vector spans the rows of the output", col, f32({3})),
      shape_row("[2], expected [] or [1]: a scalar is one element", scalar, f32({2})),
      shape_row("[1, 1], expected [] or [1]: a scalar is one element", scalar, f32({1, 1})),
      shape_row(
          "[8], expected [4] (period): the row vector repeats along the columns",
          [](Builder& b) { return b.load_row("x", {.period = 4}); }, f32({8})),
      shape_row(
          "[4, 8], expected [4, 2] (M, period): the tile's columns repeat",
          [](Builder& b) { return b.load_tile("x", {.period = 2}); }, f32({4, 8})),
      shape_row(
          "[4, 8], expected [4, 2] (M, pairs): a split tile has one entry for each pair of halves(4, 2)",
          [](Builder& b) { return b.load_tile("x", {.pairing = kPartHalves}); }, f32({4, 8})),
      shape_row(
          "[8], expected [2] (pairs): a split row vector has one entry for each pair of halves(4, 2)",
          [](Builder& b) { return b.load_row("x", {.pairing = kPartHalves}); }, f32({8})),
  });
}

TEST(BindErrors, OfPartialsHaveTheirText) {
  const auto by_row = [](Builder& b) { return b.load_partials("x"); };
  const auto by_col = [](Builder& b) { return b.load_partials("x", Reduction::Max, Axis::Col); };
  Builder b("made");
  b.store("sums", reduce_row(b.load_tile("x"), Reduction::Sum, 64));
  b.store("col_sums", reduce_col(b.load_tile("x"), Reduction::Sum, 128));
  const Program made = b.build();
  const Tensor x = f32({130, 130});
  expect_errors({
      shape_row("[4, 65], expected at most 64 partials to finish: finish them first or use a wider partial_width",
                by_row, f32({4, 65})),
      shape_row("[3, 2], expected [4, 1 to 64] (M, partials): one line of partials for each row of the output", by_row,
                f32({3, 2})),
      shape_row("[4, 0], expected [4, 1 to 64] (M, partials): one line of partials for each row of the output", by_row,
                f32({4, 0})),
      shape_row("[4], expected [4, 1 to 64] (M, partials): one line of partials for each row of the output", by_row,
                f32({4})),
      shape_row("[4, 8, 1], expected [1 to 64, 8] (partials, N): one column of partials for each column of the output",
                by_col, f32({4, 8, 1})),
      {typeid(ValueError),
       "elementwise: operand 'sums' has shape [130, 2], expected [130, 3] (M, partials): one partial for every 64 "
       "columns",
       [&] { bind_pass(130, 130, made, {{"x", x}, {"sums", f32({130, 2})}}); }},
      {typeid(ValueError),
       "elementwise: operand 'col_sums' has shape [3, 130], expected [2, 130] (partials, N): one partial for every 128 "
       "rows",
       [&] { bind_pass(130, 130, made, {{"x", x}, {"sums", f32({130, 3})}, {"col_sums", f32({3, 130})}}); }},
      {typeid(TypeError),
       "elementwise: operand 'sums' has dtype bf16, expected f32: partials are kept in full precision",
       [&] { bind_pass(130, 130, made, {{"x", x}, {"sums", Tensor::zeros({130, 3}, DType::BF16)}}); }},
  });
}

TEST(BindErrors, OfColumnsHaveTheirText) {
  const auto pass = [](const std::function<Value(Builder&)>& value) {
    return [=] { bind_pass(4, 100, reads(value), {}); };
  };
  const Pairing whole{Pairing::Kind::Interleaved, 64, 64}, small{Pairing::Kind::Halves, 10, 4};
  expect_errors({
      {typeid(ValueError),
       "elementwise: head 64 of program 'reads' does not divide N = 100, expected a multiple: every head is whole",
       pass([=](Builder& b) { return split(b.load_tile("x"), whole).first; })},
      {typeid(ValueError),
       "elementwise: head 48 of program 'reads' does not divide N = 100, expected a multiple: every head is whole",
       pass([](Builder& b) { return span_sum(b.load_tile("x"), 48); })},
      {typeid(ValueError),
       "elementwise: period 32 of program 'reads' does not divide N = 100, expected a multiple: every head is whole",
       pass([](Builder& b) { return b.load_row("x", {.period = 32}); })},
      {typeid(ValueError),
       "elementwise: period 3 of program 'reads' does not divide the number of pairs = 20, expected a multiple: every "
       "head is whole",
       pass([=](Builder& b) { return b.load_row("x", {.period = 3, .pairing = small}); })},
      {typeid(ValueError),
       "gemm: head 6 of program 'heads' does not divide N = 8 of segment 1, expected a multiple: every head is whole",
       [] {
         Builder b("heads");
         b.store("out", span_sum(b.acc(), 6));
         const Segment segments[] = {{b.build(), {{"out", f32({4, 6})}}}, {b.build(), {}}};
         (void)bind("gemm", f32({4, 6}), concat({f32({6, 6}), f32({6, 8})}), segments);
       }},
  });
}

TEST(BindErrors, OfDtypesHaveTheirText) {
  Builder declared("declared");
  declared.store("out", declared.load_tile("x", {.dtype = DType::BF16}));
  Builder target("target");
  target.store("logit", select_col(target.load_tile("x"), target.load_col("target")));
  const Program declares = declared.build(), selects = target.build();
  const Tensor x = f32({4, 8}), integers = Tensor::zeros({4, 8}, DType::I32);
  const TensorView on_device(x.view().data(), DType::F32, {4, 8}, Device{DeviceKind::Cuda, 0});
  expect_errors({
      {typeid(TypeError),
       "elementwise: operand 'x' has dtype f32, expected bf16, as program 'declared' declares: convert it",
       [&] { bind_pass(4, 8, declares, {{"x", x}, {"out", x}}); }},
      {typeid(TypeError), "elementwise: operand 'target' has dtype f32, expected i32 or i64: it holds column numbers",
       [&] { bind_pass(4, 8, selects, {{"x", x}, {"target", f32({4})}, {"logit", f32({4})}}); }},
      {typeid(TypeError),
       "elementwise: operand 'x' has dtype i32, expected f32, bf16, f16 or f64: no tile holds integers",
       [&] { bind_pass(4, 8, copy(), {{"x", integers}, {"out", x}}); }},
      {typeid(TypeError),
       "elementwise: operand 'out' has dtype i32, expected f32, bf16, f16 or f64: no output holds integers",
       [&] { bind_pass(4, 8, copy(), {{"x", x}, {"out", integers}}); }},
      {typeid(ValueError),
       "elementwise: operand 'out' is on cpu, expected cuda:0, the device of operand 'x': copy it there",
       [&] { bind_pass(4, 8, copy(), {{"x", on_device}, {"out", x}}); }},
      {typeid(ValueError),
       "elementwise: operand 'x' of shape [4, 8] has no memory, expected a pointer to its elements: allocate it first",
       [&] { bind_pass(4, 8, copy(), {{"x", TensorView(nullptr, DType::F32, {4, 8})}, {"out", x}}); }},
  });
}

TEST(BindErrors, OfMemoryHaveTheirText) {
  const Tensor a = f32({8, 8}), b = f32({8, 8}), row = f32({8}), buffer = f32({9, 8});
  const std::int64_t shape[] = {4, 8}, broadcast[] = {0, 1}, close[] = {4, 1};
  const TensorView upper = buffer.view().slice(0, 0, 8), lower = buffer.view().slice(0, 1, 9);
  const TensorView broadcast_out(buffer.view().data(), DType::F32, shape, broadcast);
  const TensorView close_out(buffer.view().data(), DType::F32, shape, close);
  const std::string cure =
      ", expected memory of its own, or the very view of a tile the segment reads: write to "
      "another tensor";
  Builder two("two");
  two.store("first", two.load_tile("x"));
  two.store("second", two.load_tile("x"));
  const Program twice = two.build();
  expect_errors({
      {typeid(ValueError),
       "elementwise: operand 'out' of shape [4, 8] has strides [0, 1], expected memory for each element: an output "
       "cannot be broadcast",
       [&] { bind_pass(4, 8, copy(), {{"x", f32({4, 8})}, {"out", broadcast_out}}); }},
      {typeid(ValueError),
       "elementwise: operand 'out' of shape [4, 8] has strides [4, 1], expected memory for each element: an output "
       "cannot be broadcast",
       [&] { bind_pass(4, 8, copy(), {{"x", f32({4, 8})}, {"out", close_out}}); }},
      {typeid(ValueError), "elementwise: operand 'out' shares memory with operand 'x'" + cure,
       [&] { bind_pass(8, 8, copy(), {{"x", upper}, {"out", lower}}); }},
      {typeid(ValueError), "elementwise: operand 'out' shares memory with operand 'x'" + cure,
       [&] { bind_pass(8, 8, copy(), {{"x", a}, {"out", a.view().transposed()}}); }},
      {typeid(ValueError), "elementwise: operand 'first' shares memory with operand 'second'" + cure,
       [&] { bind_pass(8, 8, twice, {{"x", a}, {"first", b}, {"second", b}}); }},
      {typeid(ValueError), "gemm: operand 'out' shares memory with A" + cure,
       [&] { bind_one(a, b, bias(), {{"bias", row}, {"out", a}}); }},
      {typeid(ValueError), "gemm: operand 'out' shares memory with B" + cure,
       [&] { bind_one(a, b, bias(), {{"bias", row}, {"out", b}}); }},
      {typeid(ValueError), "gemm: operand 'out' of segment 0 shares memory with operand 'out' of segment 1" + cure,
       [&] {
         const Segment segments[] = {{bias(), {{"bias", row}, {"out", upper}}},
                                     {bias(), {{"bias", row}, {"out", lower}}}};
         (void)bind("gemm", a, concat({b, b}), segments);
       }},
  });
}

TEST(CheckIndicesErrors, HaveTheirText) {
  const Tensor x = f32({4, 8}), logit = f32({4});
  const auto check = [&](DType dtype, std::vector<double> targets, bool ignores, double offset = 0) {
    Builder b("target");
    const Value target = b.load_col("target");
    const std::optional<std::int64_t> ignored = ignores ? std::optional<std::int64_t>(-100) : std::nullopt;
    b.store("logit", select_col(b.load_tile("x"), offset != 0 ? target + offset : target, ignored));
    const Tensor bound = Tensor::from({4}, targets, dtype);
    const Segment segment{b.build(), {{"x", x}, {"target", bound}, {"logit", logit}}};
    check_indices(bind_elementwise("lm_head_loss", 4, 8, segment));
  };
  expect_errors({
      {typeid(IndexError), "lm_head_loss: target 50000 at row 3 is outside [0, 8), expected a column of the output",
       [&] { check(DType::I32, {0, 1, 7, 50000}, false); }},
      {typeid(IndexError),
       "lm_head_loss: target 9223372036854775807 at row 1 is outside [0, 8), expected a column of the output",
       [&] { check(DType::I64, {0, 1e30, 7, 8}, false); }},
      {typeid(IndexError),
       "lm_head_loss: target -1 at row 1 is outside [0, 8), expected a column of the output, or -100 to ignore the row",
       [&] { check(DType::I32, {-100, -1, 7, 0}, true); }},
      {typeid(IndexError),
       "lm_head_loss: the computed index 0.5 at row 0 is outside [0, 8), expected a column of the output",
       [&] { check(DType::I32, {0, 1, 2, 3}, false, 0.5); }},
  });
  check(DType::I64, {-100, 0, 7, -100}, true);
  check(DType::I32, {-1, 0, 6, 2}, false, 1);
}

}  // namespace
}  // namespace coda
