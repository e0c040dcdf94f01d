#include "coda/tensor.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "core/check.h"
#include "core/device_memory.h"

namespace coda {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector

void require_shape(std::span<const std::int64_t> shape) {
  REQUIRE(ValueError, shape.size() <= TensorView::kMaxRank, "tensor: got ", shape.size(),
          " dimensions, expected at most ", TensorView::kMaxRank, ": reshape the tensor first");
  for (const std::int64_t extent : shape)
    REQUIRE(ValueError, extent >= 0, "tensor: shape ", shape_text(shape), " has a negative extent, expected 0 or more");
}

std::size_t bytes_of(const TensorView& view) { return static_cast<std::size_t>(view.size()) * size_of(view.dtype()); }

/// Element by element, rounded to the target's dtype; views of one shape.
void copy_on_host(const TensorView& from, const TensorView& to) {
  const std::int64_t count = from.size();
  if (count == 0) return;
  if (from.is_contiguous() && to.is_contiguous() && from.dtype() == to.dtype()) {
    std::memcpy(to.data(), from.data(), bytes_of(from));
    return;
  }
  std::vector<std::int64_t> position(static_cast<std::size_t>(from.rank()), 0);
  std::int64_t source = 0, target = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    store_element(to.dtype(), to.data(), target, load_element(from.dtype(), from.data(), source));
    for (int axis = from.rank() - 1; axis >= 0; --axis) {
      auto& at = position[static_cast<std::size_t>(axis)];
      source += from.stride(axis);
      target += to.stride(axis);
      if (++at < from.shape(axis)) break;
      source -= at * from.stride(axis);
      target -= at * to.stride(axis);
      at = 0;
    }
  }
}

/// Refuses a copy from, or to, a strided view on a GPU. `what`: "the source", "the target".
void require_contiguous(std::string_view what, const TensorView& view) {
  REQUIRE(ValueError, view.device().kind == DeviceKind::Cpu || view.is_contiguous(), "copy_elements: ", what,
          " of shape ", shape_text(view.shape()), " on ", device_text(view.device()), " has strides ",
          shape_text(view.strides()),
          ", expected contiguous elements: copy it there with a program that stores a tile");
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

Tensor Tensor::empty(std::span<const std::int64_t> shape, DType dtype, Device device, void* stream) {
  Tensor tensor;
  tensor.view_ = TensorView(nullptr, dtype, shape, device);
  const std::size_t bytes = std::max<std::size_t>(bytes_of(tensor.view_), 1);
  if (device.kind == DeviceKind::Cpu) {
    void* data = ::operator new(bytes, std::align_val_t{kAlignment});
    tensor.storage_ = std::shared_ptr<void>(data, [](void* p) { ::operator delete(p, std::align_val_t{kAlignment}); });
  } else {
    tensor.storage_ = device_memory("tensor", device).allocate("tensor", bytes, device, stream);
  }
  tensor.view_ = TensorView(tensor.storage_.get(), dtype, shape, device);
  return tensor;
}

Tensor Tensor::empty(std::initializer_list<std::int64_t> shape, DType dtype, Device device, void* stream) {
  return empty(std::span<const std::int64_t>(shape.begin(), shape.size()), dtype, device, stream);
}

Tensor Tensor::zeros(std::initializer_list<std::int64_t> shape, DType dtype) {
  Tensor tensor = empty(shape, dtype);
  std::memset(tensor.view_.data(), 0, bytes_of(tensor.view_));
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
  REQUIRE(ValueError, source.device().kind == DeviceKind::Cpu, "Tensor::copy: the source is on ",
          device_text(source.device()), ", expected cpu: Tensor::copy_to copies to and from a GPU");
  Tensor tensor = empty(source.shape(), dtype);
  copy_on_host(source, tensor);
  return tensor;
}

Tensor Tensor::copy_to(const TensorView& source, Device device, void* stream) {
  Tensor tensor = empty(source.shape(), source.dtype(), device, stream);
  copy_elements(source, tensor, stream);
  return tensor;
}

Tensor Tensor::borrow(const TensorView& view, std::shared_ptr<void> owner) {
  REQUIRE(ValueError, view.is_contiguous(), "Tensor::borrow: the view of shape ", shape_text(view.shape()),
          " has strides ", shape_text(view.strides()), ", expected contiguous rows: copy it first");
  Tensor tensor;
  tensor.view_ = view;
  tensor.storage_ = std::move(owner);
  return tensor;
}

void copy_elements(const TensorView& from, const TensorView& to, void* stream) {
  REQUIRE(ValueError, std::ranges::equal(from.shape(), to.shape()) && from.dtype() == to.dtype(),
          "copy_elements: the target is ", name_of(to.dtype()), " of shape ", shape_text(to.shape()), ", expected ",
          name_of(from.dtype()), " of shape ", shape_text(from.shape()), ", as the source");
  require_contiguous("the source", from);
  require_contiguous("the target", to);
  const bool from_host = from.device().kind == DeviceKind::Cpu, to_host = to.device().kind == DeviceKind::Cpu;
  REQUIRE(NotImplementedError, from_host || to_host || from.device() == to.device(), "copy_elements: from ",
          device_text(from.device()), " to ", device_text(to.device()),
          ", expected the host on one side: copy to the host first");
  if (from.size() == 0) return;
  if (from_host && to_host) return copy_on_host(from, to);
  const Device device = from_host ? to.device() : from.device();
  const DeviceMemory& memory = device_memory("copy_elements", device);
  if (!from.is_contiguous()) return memory.copy("copy_elements", Tensor::copy(from, from.dtype()), to, stream);
  if (to.is_contiguous()) return memory.copy("copy_elements", from, to, stream);
  const Tensor staged = Tensor::empty(from.shape(), from.dtype());
  memory.copy("copy_elements", from, staged, stream);
  copy_on_host(staged, to);
}

}  // namespace coda
