// The text of a kernel, and where its one parameter keeps what.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/emit/spec.h"
#include "cuda/emit/writer.h"

namespace coda::cuda {

inline constexpr int kThreads = 384;

/// A tensor map, and a Matrix argument (device/tile.cuh), in bytes.
inline constexpr std::size_t kMapBytes = 128;
inline constexpr std::size_t kMatrixBytes = 24;

/// Byte offsets in KernelParams, which the kernel's text declares and asserts the size of.
struct ParamsLayout {
  std::size_t a = 0, b = 0, outputs = 0, inputs = 0;  ///< arrays of tensor maps
  std::vector<std::size_t> arguments{};               ///< of each segment: rows and cols, then Matrix by Matrix
  std::size_t k_blocks = 0, segment_tiles = 0;
  std::size_t cluster_rows = 0, cluster_cols = 0, raster_group = 0;
  std::size_t size = 0;
};
ParamsLayout params_layout(const KernelSpec& spec);

/// Matrices A and B have in the kernel: one, one a segment, two of a pair, or one a part of K.
int a_maps(const KernelSpec& spec);
int b_maps(const KernelSpec& spec);

/// "residual_128x256": program and tile, for people.
std::string kernel_name(const KernelSpec& spec);

/// The kernel that copies an operand the copy engine cannot take (device/copy.cuh): text, threads of a block, and the
/// rows and columns each block copies.
std::string emit_copy();

/// The entry every kernel ends with, called what compile/nvrtc.h's kernel_symbol says: it hands its one parameter, of
/// type `params`, to `function`, both of namespace coda. `bounds`: what stands in __launch_bounds__.
void emit_entry(Writer& out, std::string_view bounds, std::string_view params, std::string_view function);
inline constexpr int kCopyThreads = 256;
inline constexpr int kCopyTile = 64;

/// Errors: InternalError for a program emit_refusal names a reason against.
std::string emit_kernel(const KernelSpec& spec);

}  // namespace coda::cuda
