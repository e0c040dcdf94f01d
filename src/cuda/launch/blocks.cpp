#include "cuda/launch/blocks.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "core/check.h"
#include "cuda/emit/blocks.h"
#include "cuda/launch/gpu.h"

namespace coda::cuda {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // rows, and blocks of a grid

// What device/tile.cuh calls Matrix.
struct MatrixParam {
  void* data;
  std::int64_t row_stride, col_stride;
};

// What device/attention.cuh and device/gather.cuh call so.
struct AttentionParams {
  MatrixParam q, k, v, out;
  std::int32_t tokens, keys, heads, group;
  float factor;
};
struct GatherParams {
  MatrixParam table, out;
  const void* numbers;
  std::int32_t rows, cols;
};
static_assert(sizeof(AttentionParams) == kAttentionParamsBytes && sizeof(GatherParams) == kGatherParamsBytes);

MatrixParam param_of(const TensorView& view) { return {view.data(), view.stride(0), view.stride(1)}; }

// A kernel of one parameter, for `blocks` blocks.
struct Launch {
  std::string name, text;
  int threads = 0;
  std::int64_t blocks = 0;
  void* params = nullptr;
};

void launch(std::string_view call, Device device, const Launch& what, void* stream) {
  const Gpu& on = gpu(device.index);
  const auto refusal = arch_refusal(on);
  REQUIRE(NotImplementedError, !refusal, call, ": ", *refusal);
  const LoadedKernel& kernel = load_kernel(on, {.name = what.name, .text = what.text, .threads = what.threads},
                                           static_cast<Stream>(stream), call);
  const CurrentGpu current(on);
  const LaunchConfig config{.grid_x = static_cast<unsigned>(what.blocks),
                            .block_x = static_cast<unsigned>(what.threads),
                            .stream = static_cast<Stream>(stream)};
  launch_kernel(on, kernel, config, what.params, call, [] { return ""; });
}

// Rows can be read in whole pieces of 16 bytes.
bool lies_in_pieces(const TensorView& view) {
  constexpr std::int64_t kPiece = 16;
  const auto bytes = static_cast<std::int64_t>(size_of(view.dtype()));
  return view.stride(1) == 1 && reinterpret_cast<std::uintptr_t>(view.data()) % kPiece == 0 &&
         (view.shape(0) == 1 || view.stride(0) * bytes % kPiece == 0);
}

}  // namespace

void launch_attention(std::string_view call, const Attention& attention, void* stream) {
  const TensorView &q = attention.q, &k = attention.k, &v = attention.v;
  const std::int64_t tokens = q.shape(0), heads = attention.heads, head = q.shape(1) / heads;
  REQUIRE(NotImplementedError, head % 8 == 0 && head <= kLargestHead, call, ": heads have ", head,
          " columns, expected a multiple of 8 up to ", kLargestHead, " on a GPU: copy q, k and v to the CPU");
  // One query wastes a block of several.
  const std::int64_t rows = tokens == 1 ? 1 : 8;
  const std::int64_t blocks = (tokens + rows - 1) / rows * heads;
  REQUIRE(NotImplementedError, k.shape(0) <= kMost && blocks <= kMost, call, ": got ", tokens, " queries of ", heads,
          " heads and ", k.shape(0), " keys, expected at most ", kMost, " on a GPU");
  if (tokens == 0) return;
  const AttentionSpec spec{q.dtype(), static_cast<int>(head), static_cast<int>(rows),
                           lies_in_pieces(k) && lies_in_pieces(v)};
  AttentionParams params{param_of(q),
                         param_of(k),
                         param_of(v),
                         param_of(attention.out),
                         static_cast<std::int32_t>(tokens),
                         static_cast<std::int32_t>(k.shape(0)),
                         static_cast<std::int32_t>(heads),
                         static_cast<std::int32_t>(heads / attention.kv_heads),
                         static_cast<float>(attention.scale * std::numbers::log2e)};
  launch(call, q.device(),
         {concat("attention_", head, "x", rows), emit_attention(spec), kAttentionThreads, blocks, &params}, stream);
}

void launch_gather(std::string_view call, const TensorView& table, const TensorView& numbers, const TensorView& out,
                   void* stream) {
  const std::int64_t rows = out.shape(0), cols = out.shape(1);
  REQUIRE(NotImplementedError, std::max(rows, cols) <= kMost, call, ": got ", rows, " tokens of width ", cols,
          ", expected at most ", kMost, " of each on a GPU");
  if (rows == 0 || cols == 0) return;
  GatherParams params{param_of(table), param_of(out), numbers.data(), static_cast<std::int32_t>(rows),
                      static_cast<std::int32_t>(cols)};
  launch(call, table.device(), {"gather", emit_gather(table.dtype()), kGatherThreads, rows, &params}, stream);
}

}  // namespace coda::cuda
