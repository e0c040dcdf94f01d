#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "coda/tensor.h"

namespace coda {
namespace {

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.f);
  return values;
}

TEST(TensorView, ContiguousStridesAreRowMajor) {
  std::vector<float> data = counting(24);
  const TensorView view(data.data(), DType::F32, {2, 3, 4});
  EXPECT_EQ(view.stride(0), 12);
  EXPECT_EQ(view.stride(1), 4);
  EXPECT_EQ(view.stride(2), 1);
  EXPECT_TRUE(view.is_contiguous());
  EXPECT_EQ(view.size(), 24);
}

TEST(TensorView, TransposeAndSliceShareMemory) {
  std::vector<float> data = counting(12);
  const TensorView view(data.data(), DType::F32, {3, 4});
  const TensorView t = view.transposed();
  EXPECT_EQ(t.shape(0), 4);
  EXPECT_EQ(t.at(1, 2), 9);
  EXPECT_FALSE(t.is_contiguous());
  EXPECT_EQ(view.slice(1, 1, 3).at(2, 0), 9);
  EXPECT_EQ(view.slice(0, 3, 3).size(), 0);
}

TEST(TensorView, NegativeAndZeroStrides) {
  std::vector<float> data = counting(4);
  const std::int64_t shape[] = {2, 4}, strides[] = {0, -1};
  const TensorView view(data.data() + 3, DType::F32, shape, strides);
  EXPECT_EQ(view.at(0, 0), 3);
  EXPECT_EQ(view.at(1, 3), 0);
  const Tensor copy = Tensor::copy(view, DType::F64);
  EXPECT_EQ(copy.view().at(1, 1), 2);
  EXPECT_TRUE(copy.view().is_contiguous());
}

TEST(TensorView, ReshapeKeepsOrder) {
  std::vector<float> data = counting(12);
  const TensorView view(data.data(), DType::F32, {2, 6});
  EXPECT_EQ(view.reshaped({3, 4}).at(2, 3), 11);
}

TEST(Tensor, FromRoundsAndCopySharesNothing) {
  const double values[] = {1.0, 1.00390625, -2.5, 0};
  const Tensor tensor = Tensor::from({2, 2}, values, DType::BF16);
  EXPECT_EQ(tensor.view().at(0, 1), 1.0);  // halfway between 1 and 1 + 2^-7: to even
  const Tensor copy = Tensor::copy(tensor, DType::BF16);
  store_element(DType::BF16, copy.view().data(), 0, 7);
  EXPECT_EQ(tensor.view().at(0, 0), 1.0);
}

TEST(Tensor, EmptyExtentsAreLegal) {
  EXPECT_EQ(Tensor::empty({0, 5}, DType::F32).view().size(), 0);
  EXPECT_EQ(Tensor::copy(Tensor::empty({3, 0}, DType::F32), DType::BF16).view().size(), 0);
}

}  // namespace
}  // namespace coda
