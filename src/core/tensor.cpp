#include "coda/tensor.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "core/check.h"

namespace coda {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector

void require_shape(std::span<const std::int64_t> shape) {
  REQUIRE(ValueError, shape.size() <= TensorView::kMaxRank, "tensor: got ", shape.size(),
          " dimensions, expected at most ", TensorView::kMaxRank, ": reshape the tensor first");
  for (const std::int64_t extent : shape)
    REQUIRE(ValueError, extent >= 0, "tensor: shape ", shape_text(shape), " has a negative extent, expected 0 or more");
}

}  // namespace

std::string device_text(Device device) {
  return device.kind == DeviceKind::Cpu ? "cpu" : concat("cuda:", device.index);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

TensorView::TensorView(void* data, DType dtype, std::span<const std::int64_t> shape, Device device)
    : data_(data), dtype_(dtype), device_(device), rank_(static_cast<int>(shape.size())) {
  require_shape(shape);
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    shape_[i] = shape[i];
    strides_[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
}

TensorView::TensorView(void* data, DType dtype, std::initializer_list<std::int64_t> shape, Device device)
    : TensorView(data, dtype, std::span<const std::int64_t>(shape.begin(), shape.size()), device) {}

TensorView::TensorView(void* data, DType dtype, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> strides, Device device)
    : TensorView(data, dtype, shape, device) {
  REQUIRE(ValueError, strides.size() == shape.size(), "tensor: got ", strides.size(), " strides for shape ",
          shape_text(shape), ", expected one a dimension");
  std::copy(strides.begin(), strides.end(), strides_.begin());
}

std::int64_t TensorView::size() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape()) count *= extent;
  return count;
}

bool TensorView::is_contiguous() const {
  std::int64_t expected = 1;
  for (int axis = rank_ - 1; axis >= 0; --axis) {
    if (shape(axis) != 1 && stride(axis) != expected) return size() == 0;
    expected *= shape(axis);
  }
  return true;
}

TensorView TensorView::transposed() const {
  REQUIRE(ValueError, rank_ >= 2, "transposed: got a tensor of shape ", shape_text(shape()),
          ", expected at least 2 dimensions");
  TensorView result = *this;
  const auto last = static_cast<std::size_t>(rank_ - 1);
  std::swap(result.shape_[last - 1], result.shape_[last]);
  std::swap(result.strides_[last - 1], result.strides_[last]);
  return result;
}

TensorView TensorView::slice(int axis, std::int64_t start, std::int64_t stop) const {
  REQUIRE(IndexError, axis >= 0 && axis < rank_, "slice: axis ", axis, " of a tensor of shape ", shape_text(shape()),
          ", expected 0 to ", rank_ - 1);
  REQUIRE(IndexError, 0 <= start && start <= stop && stop <= shape(axis), "slice: range ", start, " to ", stop,
          " leaves axis ", axis, " of shape ", shape_text(shape()));
  TensorView result = *this;
  const auto at = static_cast<std::size_t>(axis);
  result.shape_[at] = stop - start;
  result.data_ = static_cast<char*>(data_) + start * strides_[at] * static_cast<std::int64_t>(size_of(dtype_));
  return result;
}

TensorView TensorView::reshaped(std::initializer_list<std::int64_t> shape) const {
  TensorView result(data_, dtype_, shape, device_);
  REQUIRE(ValueError, is_contiguous() && result.size() == size(), "reshaped: a tensor of shape ",
          shape_text(this->shape()), " cannot be viewed as ", shape_text(result.shape()),
          ", expected a contiguous tensor with as many elements: copy it first");
  return result;
}

double TensorView::at(std::int64_t row, std::int64_t col) const {
  return load_element(dtype_, data_, row * stride(0) + col * stride(1));
}

Tensor Tensor::empty(std::span<const std::int64_t> shape, DType dtype) {
  Tensor tensor;
  tensor.view_ = TensorView(nullptr, dtype, shape);
  const auto bytes = static_cast<std::size_t>(tensor.view_.size()) * size_of(dtype);
  void* data = ::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t{kAlignment});
  tensor.storage_ = std::shared_ptr<void>(data, [](void* p) { ::operator delete(p, std::align_val_t{kAlignment}); });
  tensor.view_ = TensorView(data, dtype, shape);
  return tensor;
}

Tensor Tensor::empty(std::initializer_list<std::int64_t> shape, DType dtype) {
  return empty(std::span<const std::int64_t>(shape.begin(), shape.size()), dtype);
}

Tensor Tensor::zeros(std::initializer_list<std::int64_t> shape, DType dtype) {
  Tensor tensor = empty(shape, dtype);
  std::memset(tensor.view_.data(), 0, static_cast<std::size_t>(tensor.view_.size()) * size_of(dtype));
  return tensor;
}

Tensor Tensor::from(std::initializer_list<std::int64_t> shape, std::span<const double> values, DType dtype) {
  Tensor tensor = empty(shape, dtype);
  REQUIRE(ValueError, static_cast<std::int64_t>(values.size()) == tensor.view_.size(), "Tensor::from: got ",
          values.size(), " values for shape ", shape_text(tensor.view_.shape()), ", expected ", tensor.view_.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    store_element(dtype, tensor.view_.data(), static_cast<std::int64_t>(i), values[i]);
  return tensor;
}

Tensor Tensor::copy(const TensorView& source, DType dtype) {
  Tensor tensor = empty(source.shape(), dtype);
  const std::int64_t count = source.size();
  if (count == 0) return tensor;
  if (source.is_contiguous() && source.dtype() == dtype) {
    std::memcpy(tensor.view_.data(), source.data(), static_cast<std::size_t>(count) * size_of(dtype));
    return tensor;
  }
  std::vector<std::int64_t> position(static_cast<std::size_t>(source.rank()), 0);
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    store_element(dtype, tensor.view_.data(), i, load_element(source.dtype(), source.data(), offset));
    for (int axis = source.rank() - 1; axis >= 0; --axis) {
      auto& at = position[static_cast<std::size_t>(axis)];
      offset += source.stride(axis);
      if (++at < source.shape(axis)) break;
      offset -= at * source.stride(axis);
      at = 0;
    }
  }
  return tensor;
}

}  // namespace coda
