// Overlap of views, against every byte written out; and which outputs bind lets share memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "coda/build.h"
#include "coda/error.h"
#include "problem/memory.h"

namespace coda {
namespace {

std::set<const char*> bytes_of(const TensorView& view) {
  std::set<const char*> bytes;
  const auto size = static_cast<std::int64_t>(size_of(view.dtype()));
  for (std::int64_t r = 0; r < view.shape(0); ++r)
    for (std::int64_t c = 0; c < view.shape(1); ++c)
      for (std::int64_t b = 0; b < size; ++b)
        bytes.insert(static_cast<const char*>(view.data()) + (r * view.stride(0) + c * view.stride(1)) * size + b);
  return bytes;
}

bool overlap(const TensorView& x, const TensorView& y) {
  const std::set<const char*> left = bytes_of(x), right = bytes_of(y);
  return std::any_of(left.begin(), left.end(), [&](const char* byte) { return right.contains(byte); });
}

class Overlap : public testing::Test {
 protected:
  std::int64_t pick(std::int64_t low, std::int64_t high) { return std::uniform_int_distribution(low, high)(random_); }

  // A block of a 12×16 matrix: rows and columns with steps, either axis reversed or both exchanged.
  TensorView block() {
    const std::int64_t row_step = pick(1, 3), col_step = pick(1, 3), first_row = pick(0, 11), first_col = pick(0, 15);
    const std::int64_t shape[] = {pick(0, (11 - first_row) / row_step + 1), pick(0, (15 - first_col) / col_step + 1)};
    std::int64_t strides[] = {16 * row_step, col_step};
    std::int64_t at = first_row * 16 + first_col;
    for (int axis = 0; axis < 2; ++axis) {
      if (shape[axis] == 0 || pick(0, 3) != 0) continue;
      at += (shape[axis] - 1) * strides[axis];
      strides[axis] = -strides[axis];
    }
    const TensorView view(buffer_.data<float>() + at, DType::F32, shape, strides);
    return pick(0, 3) == 0 ? view.transposed() : view;
  }

  // Any view that stays inside the buffer.
  TensorView any() {
    const std::int64_t shape[] = {pick(1, 5), pick(1, 5)}, strides[] = {pick(-10, 10), pick(-10, 10)};
    const DType dtype = pick(0, 1) == 0 ? DType::BF16 : DType::F32;
    return {buffer_.data<float>() + pick(90, 110), dtype, shape, strides};
  }

  const std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  Tensor buffer_ = Tensor::zeros({12, 16}, DType::F32);
};

TEST_F(Overlap, IsNeverMissed) {
  for (int i = 0; i < 20000; ++i) {
    const TensorView x = any(), y = any();
    ASSERT_TRUE(!overlap(x, y) || may_overlap(x, y)) << "seed " << seed_ << ", pair " << i;
  }
}

TEST_F(Overlap, IsExactForUnsteppedBlocksOfAMatrix) {
  for (int i = 0; i < 5000; ++i) {
    const auto block = [&] {
      const std::int64_t row = pick(0, 12), col = pick(0, 16);
      return buffer_.view().slice(0, row, pick(row, 12)).slice(1, col, pick(col, 16));
    };
    const TensorView x = block(), y = pick(0, 1) == 0 ? block() : block().transposed();
    ASSERT_EQ(overlap(x, y), may_overlap(x, y)) << "seed " << seed_ << ", pair " << i;
  }
}

TEST_F(Overlap, SeesInterleavedBlocksApart) {
  int apart = 0, seen = 0;
  for (int i = 0; i < 5000; ++i) {
    const TensorView x = block(), y = block();
    if (overlap(x, y)) {
      ASSERT_TRUE(may_overlap(x, y)) << "seed " << seed_ << ", pair " << i;
      continue;
    }
    ++apart;
    seen += may_overlap(x, y) ? 0 : 1;
  }
  EXPECT_GT(seen, apart * 3 / 4) << "seed " << seed_;
}

Program copy(bool accumulate = false) {
  Builder b("copy");
  b.store("out", b.load_tile("x") + 1.0, {.accumulate = accumulate});
  return b.build();
}

TEST(BindMemory, AllowsATileInPlace) {
  const Tensor x = Tensor::zeros({4, 8}, DType::F32);
  EXPECT_NO_THROW((void)bind_elementwise("elementwise", 4, 8, {copy(), {{"x", x}, {"out", x}}}));
  EXPECT_NO_THROW((void)bind_elementwise("elementwise", 4, 8, {copy(true), {{"x", x}, {"out", x}}}));
}

TEST(BindMemory, RefusesOtherShapesInPlace) {
  Builder b("rows");
  b.store("out", b.load_row("x") + 1.0);
  const Tensor row = Tensor::zeros({8}, DType::F32);
  EXPECT_THROW((void)bind_elementwise("elementwise", 4, 8, {b.build(), {{"x", row}, {"out", row}}}), ValueError);
  // A backend may read a whole period for each block of columns.
  Builder p("periods");
  p.store("out", p.load_tile("x", {.period = 8}) + 1.0);
  const Tensor tile = Tensor::zeros({4, 8}, DType::F32);
  EXPECT_THROW((void)bind_elementwise("elementwise", 4, 8, {p.build(), {{"x", tile}, {"out", tile}}}), ValueError);
}

// Segments run side by side: one must not read what another writes.
TEST(BindMemory, RefusesATileInPlaceOfAnotherSegment) {
  Builder b("add");
  b.store("out", b.acc() + b.load_tile("x"));
  const Tensor one = Tensor::zeros({4, 8}, DType::F32), two = Tensor::zeros({4, 8}, DType::F32);
  const Tensor left = Tensor::zeros({4, 6}, DType::F32), right = Tensor::zeros({6, 8}, DType::F32);
  const auto bind_with = [&](const Tensor& x, const Tensor& y) {
    const Segment segments[] = {{b.build(), {{"x", x}, {"out", one}}}, {b.build(), {{"x", y}, {"out", two}}}};
    (void)coda::bind("gemm", left, concat({right, right}), segments);
  };
  EXPECT_NO_THROW(bind_with(one, two));
  EXPECT_THROW(bind_with(two, one), ValueError);
}

TEST(BindMemory, AllowsOutputsSideBySideInOneBuffer) {
  const Tensor qkv = Tensor::zeros({4, 24}, DType::F32), a = Tensor::zeros({4, 6}, DType::F32);
  const Tensor b = Tensor::zeros({6, 8}, DType::F32);
  Builder builder("identity");
  builder.store("out", builder.acc());
  std::vector<Segment> segments;
  for (std::int64_t i = 0; i < 3; ++i)
    segments.push_back({builder.build(), {{"out", qkv.view().slice(1, 8 * i, 8 * i + 8)}}});
  EXPECT_NO_THROW((void)coda::bind("gemm", a, concat({b, b, b}), segments));
}

TEST(BindMemory, AllowsInputsToShareAndBroadcast) {
  Builder b("squares");
  b.store("out", b.acc() * b.load_tile("x") * b.load_tile("y"));
  const Tensor a = Tensor::zeros({8, 8}, DType::F32), out = Tensor::zeros({8, 8}, DType::F32);
  const std::int64_t shape[] = {8, 8}, strides[] = {0, 0};
  const TensorView one(a.view().data(), DType::F32, shape, strides);
  const Segment segment{b.build(), {{"x", a}, {"y", one}, {"out", out}}};
  EXPECT_NO_THROW((void)bind("gemm", a, a.view().transposed(), {&segment, 1}));
}

}  // namespace
}  // namespace coda
