// TensorView: the one thing that crosses every border of the library, a pointer with dtype, shape and strides.
// Tensor: an owning, contiguous buffer, of the host or of a GPU, for C++ callers who have none of their own.
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

/// An owning contiguous tensor: 64-byte aligned memory of the host, or 256-byte aligned memory of a GPU. Copies share
/// the buffer. Memory of a GPU belongs to the stream (a CUstream; null: the default one) it was made for: it may be
/// let go while kernels queued there use it, but not while those of another stream do.
class Tensor {
 public:
  Tensor() = default;

  /// Uninitialised memory. Errors: ValueError for a negative extent or a GPU that is not there; std::bad_alloc;
  /// OutOfMemoryError, DeviceError; NotImplementedError without an NVIDIA driver.
  static Tensor empty(std::initializer_list<std::int64_t> shape, DType dtype, Device device = {},
                      void* stream = nullptr);
  static Tensor empty(std::span<const std::int64_t> shape, DType dtype, Device device = {}, void* stream = nullptr);
  static Tensor zeros(std::initializer_list<std::int64_t> shape, DType dtype);

  /// `values` (row-major), rounded to `dtype`. Errors: ValueError when the counts differ.
  static Tensor from(std::initializer_list<std::int64_t> shape, std::span<const double> values,
                     DType dtype = DType::F32);

  /// A contiguous copy of a CPU view, rounded to `dtype`. Errors: ValueError for a view on a GPU.
  static Tensor copy(const TensorView& source, DType dtype);

  /// A contiguous copy of `source` on `device`, behind what is queued on `stream`. Errors: as empty and copy_elements.
  static Tensor copy_to(const TensorView& source, Device device, void* stream = nullptr);

  /// The memory of a contiguous view, which `owner` keeps alive. Errors: ValueError for a strided view.
  static Tensor borrow(const TensorView& view, std::shared_ptr<void> owner);

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

/// Copies the elements of a view to another of the same shape and dtype; on a GPU both are contiguous. It runs behind
/// what is queued on `stream`; when host memory takes part it has ended on return. Errors: ValueError for views that
/// differ or are strided; NotImplementedError between two GPUs; DeviceError.
void copy_elements(const TensorView& from, const TensorView& to, void* stream = nullptr);

}  // namespace coda
