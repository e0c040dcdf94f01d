// TensorView: the one thing that crosses every border of the library, a pointer with dtype, shape and strides.
// Tensor: an owning, contiguous host buffer for C++ callers who have none of their own.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "coda/dtype.h"

namespace coda {

enum class DeviceKind : std::uint8_t { Cpu, Cuda };

struct Device {
  DeviceKind kind = DeviceKind::Cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// "cpu", "cuda:1"
std::string device_text(Device device);

/// A strided view of memory somebody else owns. Strides count elements, not bytes, and may be 0 or negative on inputs.
class TensorView {
 public:
  static constexpr int kMaxRank = 4;

  TensorView() = default;

  /// A contiguous (row-major) view. Errors: ValueError for a rank above kMaxRank or a negative extent.
  TensorView(void* data, DType dtype, std::span<const std::int64_t> shape, Device device = {});
  TensorView(void* data, DType dtype, std::initializer_list<std::int64_t> shape, Device device = {});

  /// A view with explicit strides, in elements.
  TensorView(void* data, DType dtype, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
             Device device = {});

  void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  int rank() const { return rank_; }
  std::int64_t shape(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }
  std::int64_t stride(int axis) const { return strides_[static_cast<std::size_t>(axis)]; }
  std::span<const std::int64_t> shape() const { return {shape_.data(), static_cast<std::size_t>(rank_)}; }
  std::span<const std::int64_t> strides() const { return {strides_.data(), static_cast<std::size_t>(rank_)}; }
  std::int64_t size() const;
  bool is_contiguous() const;

  /// Two axes exchanged; no data moves. `transposed()` exchanges the last two.
  TensorView transposed() const;

  /// Elements start ≤ i < stop along `axis`. Errors: IndexError when the range leaves the axis.
  TensorView slice(int axis, std::int64_t start, std::int64_t stop) const;

  /// The same memory under another shape. Errors: ValueError unless contiguous with the same number of elements.
  TensorView reshaped(std::initializer_list<std::int64_t> shape) const;

  /// Element at a rank-2 position, as a double (CPU only).
  double at(std::int64_t row, std::int64_t col) const;

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::F32;
  Device device_;
  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> shape_{};
  std::array<std::int64_t, kMaxRank> strides_{};
};

/// "[2, 576]"
std::string shape_text(std::span<const std::int64_t> shape);

/// An owning contiguous host tensor, 64-byte aligned. Copies share the buffer.
class Tensor {
 public:
  Tensor() = default;

  /// Uninitialised memory. Errors: ValueError for a negative extent; std::bad_alloc.
  static Tensor empty(std::initializer_list<std::int64_t> shape, DType dtype);
  static Tensor empty(std::span<const std::int64_t> shape, DType dtype);
  static Tensor zeros(std::initializer_list<std::int64_t> shape, DType dtype);

  /// `values` (row-major), rounded to `dtype`. Errors: ValueError when the counts differ.
  static Tensor from(std::initializer_list<std::int64_t> shape, std::span<const double> values,
                     DType dtype = DType::F32);

  /// A contiguous copy of a CPU view, rounded to `dtype`.
  static Tensor copy(const TensorView& source, DType dtype);

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }  // NOLINT: a Tensor is usable wherever a view is
  template <class T>
  T* data() const {
    return static_cast<T*>(view_.data());
  }

 private:
  std::shared_ptr<void> storage_;
  TensorView view_;
};

}  // namespace coda
