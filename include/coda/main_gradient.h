// MainGradient: where a backward leaves the gradient by a parameter.
#pragma once

#include <cstdint>
#include <optional>

#include "coda/tensor.h"

namespace coda {

/// Where the gradient by a parameter goes; nothing: the parameter is frozen. It is added to what the tensor holds, or,
/// where that is `Fresh`, takes its place, whatever it was.
class MainGradient {
 public:
  enum class Content : std::uint8_t { Kept, Fresh };

  MainGradient() = default;
  // Not explicit: what is a tensor, or nothing, is a main gradient.
  MainGradient(std::nullopt_t) {}
  MainGradient(const TensorView& into, Content content = Content::Kept)
      : into_(into), is_fresh_(content == Content::Fresh) {}
  MainGradient(const Tensor& into, Content content = Content::Kept) : MainGradient(into.view(), content) {}

  bool has_value() const { return into_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const TensorView& operator*() const { return *into_; }
  const TensorView* operator->() const { return &*into_; }
  bool is_fresh() const { return is_fresh_; }

 private:
  std::optional<TensorView> into_{};
  bool is_fresh_ = false;
};

}  // namespace coda
