// Every mistake src/core refuses, and its text.
#include <gtest/gtest.h>

#include <cstdlib>

#include "coda/tensor.h"
#include "core/check.h"
#include "core/options.h"
#include "support/error_row.h"

namespace coda {
namespace {

using testing_support::expect_errors;

// Reads the options with one variable set.
void read_with(const char* name, const char* value) {
  ::setenv(name, value, 1);
  try {
    (void)read_options();
  } catch (...) {
    ::unsetenv(name);
    throw;
  }
  ::unsetenv(name);
}

TEST(CoreErrors, HaveTheirText) {
  float data[12] = {};
  const TensorView view(data, DType::F32, {3, 4});
  const std::int64_t shape[] = {3, 4}, one_stride[] = {4};
  expect_errors({
      {typeid(ValueError), "tensor: got 5 dimensions, expected at most 4: reshape the tensor first",
       [&] { TensorView(data, DType::F32, {1, 1, 1, 1, 1}); }},
      {typeid(ValueError), "tensor: shape [3, -1] has a negative extent, expected 0 or more",
       [&] { TensorView(data, DType::F32, {3, -1}); }},
      {typeid(ValueError), "tensor: got 1 strides for shape [3, 4], expected one a dimension",
       [&] { TensorView(data, DType::F32, shape, one_stride); }},
      {typeid(ValueError), "transposed: got a tensor of shape [12], expected at least 2 dimensions",
       [&] { (void)TensorView(data, DType::F32, {12}).transposed(); }},
      {typeid(IndexError), "slice: axis 2 of a tensor of shape [3, 4], expected 0 to 1",
       [&] { (void)view.slice(2, 0, 1); }},
      {typeid(IndexError), "slice: range 2 to 5 leaves axis 1 of shape [3, 4]", [&] { (void)view.slice(1, 2, 5); }},
      {typeid(ValueError),
       "reshaped: a tensor of shape [4, 3] cannot be viewed as [12], expected a contiguous tensor with as many "
       "elements: copy it first",
       [&] { (void)view.transposed().reshaped({12}); }},
      {typeid(ValueError), "Tensor::from: got 2 values for shape [3], expected 3",
       [] { (void)Tensor::from({3}, std::vector<double>{1, 2}); }},
      {typeid(NotImplementedError),
       "tensor: got device cuda:0, expected cpu: this program links no part of coda that knows GPUs",
       [&] { Tensor::empty({3}, DType::F32, Device{DeviceKind::Cuda, 0}); }},
      {typeid(ValueError),
       "Tensor::copy: the source is on cuda:1, expected cpu: Tensor::copy_to copies to and from a GPU",
       [&] { Tensor::copy(TensorView(data, DType::F32, {3, 4}, Device{DeviceKind::Cuda, 1}), DType::F32); }},
      {typeid(ValueError),
       "Tensor::borrow: the view of shape [4, 3] has strides [1, 4], expected contiguous rows: copy it first",
       [&] { Tensor::borrow(view.transposed(), nullptr); }},
      {typeid(ValueError),
       "copy_elements: the target is f32 of shape [4, 3], expected f32 of shape [3, 4], as the source",
       [&] { copy_elements(view, TensorView(data, DType::F32, {4, 3})); }},
      {typeid(ValueError),
       "copy_elements: the source of shape [4, 3] on cuda:0 has strides [1, 4], expected contiguous elements: copy it "
       "there with a program that stores a tile",
       [&] {
         const TensorView there(data, DType::F32, {3, 4}, Device{DeviceKind::Cuda, 0});
         copy_elements(there.transposed(), TensorView(data, DType::F32, {4, 3}));
       }},
      {typeid(NotImplementedError),
       "copy_elements: from cuda:0 to cuda:1, expected the host on one side: copy to the host first",
       [&] {
         copy_elements(TensorView(data, DType::F32, {3}, Device{DeviceKind::Cuda, 0}),
                       TensorView(data, DType::F32, {3}, Device{DeviceKind::Cuda, 1}));
       }},
      {typeid(ValueError),
       "environment: CODA_NUM_THREADS is 'many', expected a whole number of 0 or more: unset it or set it to one",
       [] { read_with("CODA_NUM_THREADS", "many"); }},
      {typeid(ValueError), "environment: CODA_CACHE is 'on', expected rw, ro or off: unset it or set it to one",
       [] { read_with("CODA_CACHE", "on"); }},
      {typeid(InternalError), "internal error, please report it (1 + 1 == 3): arithmetic",
       [] { INVARIANT(1 + 1 == 3, "arithmetic"); }},
  });
}

}  // namespace
}  // namespace coda
