// What training keeps of a residual stream, and the gradient by it on its way from block to block; part of training.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "coda/blocks.h"
#include "coda/main_gradient.h"
#include "coda/program.h"

namespace coda {

/// What a forward keeps beyond what its backward cannot do without.
enum class SavedPolicy : std::uint8_t {
  Fast,  ///< the MLP's gated activation and all partial Σx²
  Lean,  ///< neither: the activation is made again by the backward, and Σx² is one number a token
};

/// What is kept of a NormedStream: x·γ is not.
struct SavedStream {
  Tensor x;       ///< (T,d)
  Tensor sum_sq;  ///< (T, partials) f32; one partial when lean
};
SavedStream saved_stream(const NormedStream& stream, SavedPolicy policy = SavedPolicy::Fast,
                         const Execution& where = {});

/// Row sums by which the gradient reaches a stream's r: partial Σ dz·(z − b), but for constant factors, and the derived
/// program that makes the gradient by sum_sq of it (Gradient::finish of its reader).
struct StreamSum {
  Tensor s;  ///< (T, partials) f32
  Program finish;
};

/// The gradient of a loss by a NormedStream, on its way from the block that read the stream to the one that made it.
/// The product with the weights, d_h = Σ dz·W, is still to come: its epilogue is the backward of the maker.
struct StreamGradient {
  std::vector<Tensor> dz;           ///< r·dz of each projection that read the stream, (T, n)
  std::vector<TensorView> weights;  ///< of each, (n, d)
  std::optional<Tensor> d_h;        ///< (T,d), when the product has been taken already; then there are no dz
  std::vector<StreamSum> sums;      ///< of its readers
  std::optional<Tensor> d_x;        ///< (T,d), what reaches x past the norm, by the next residual sum; x's dtype or f32
};

/// In which dtype the gradient by the residual stream goes from one residual sum to the one before.
enum class StreamGradientDType : std::uint8_t {
  Stream,  ///< the stream's: it is rounded at each sum
  F32,     ///< f32; products take a copy in the stream's dtype
};

struct StreamParameterGradients {
  MainGradient norm_weight, bias;  ///< (d,); bias: that of residual_norm
};
struct StreamBackward {
  Tensor d_x;       ///< (T,d) in x's dtype: a factor of the products that follow
  Tensor residual;  ///< (T,d) for StreamGradient::d_x: the same values in the dtype asked for, or d_x itself
};
/// The gradient by x of a stream, and so by both terms of the sum residual_norm made, or by the argument of enter_norm:
/// d_h⊙γ − x·(r²·s/d) + d_x. `norm`: of the stream.
StreamBackward stream_backward(const StreamGradient& gradient, const SavedStream& stream, const RmsNorm& norm,
                               const StreamParameterGradients& into = {},
                               StreamGradientDType dtype = StreamGradientDType::Stream, const Execution& where = {});

}  // namespace coda
