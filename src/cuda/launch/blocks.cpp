#include "cuda/launch/blocks.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "core/check.h"
#include "core/integers.h"
#include "cuda/emit/blocks.h"
#include "cuda/launch/gpu.h"

namespace coda::cuda {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // rows, and blocks of a grid

constexpr int kRowsOfBlock = 8;  // queries

// What device/tile.cuh calls Matrix.
struct MatrixParam {
  void* data;
  std::int64_t row_stride, col_stride;
};

// What device/attention.cuh, device/attention_backward.cuh and device/gather.cuh call so.
struct AttentionParams {
  MatrixParam q, k, v, out, lse;
  std::int32_t tokens, keys, heads, group;
  float factor;
};
struct AttentionBackwardParams {
  MatrixParam q, k, v, out, d_out, lse, means, d_q, d_k, d_v;
  std::int32_t tokens, heads, group;
  float scale;
};
struct GatherParams {
  MatrixParam table, out;
  const void* numbers;
  std::int32_t rows, cols;
};
struct AddRowsParams {
  MatrixParam from, into;
  const void *order, *starts, *numbers;
  std::int32_t groups, cols;
};
static_assert(sizeof(AttentionParams) == kAttentionParamsBytes && sizeof(GatherParams) == kGatherParamsBytes);
static_assert(sizeof(AttentionBackwardParams) == kAttentionBackwardParamsBytes);
static_assert(sizeof(AddRowsParams) == kAddRowsParamsBytes);

MatrixParam param_of(const TensorView& view) {
  if (view.data() == nullptr) return {};
  return {view.data(), view.stride(0), view.stride(1)};
}

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

// What the kernels of attention need to know of its shape.
struct AttentionExtents {
  std::int64_t tokens, keys, head, group;  // columns of a head; query heads that share keys

  explicit AttentionExtents(const Attention& attention)
      : tokens(attention.q.shape(0)),
        keys(attention.k.shape(0)),
        head(attention.q.shape(1) / attention.heads),
        group(attention.heads / attention.kv_heads) {}
};

void require_runnable(std::string_view call, const Attention& attention, const AttentionExtents& extents) {
  const std::int64_t heads = attention.heads;
  REQUIRE(NotImplementedError, extents.head % 8 == 0 && extents.head <= kLargestHead, call, ": heads have ",
          extents.head, " columns, expected a multiple of 8 up to ", kLargestHead,
          " on a GPU: copy q, k and v to the CPU");
  REQUIRE(NotImplementedError, extents.keys <= kMost && extents.tokens <= kMost / heads, call, ": got ", extents.tokens,
          " queries of ", heads, " heads and ", extents.keys, " keys, expected at most ", kMost, " on a GPU");
}

AttentionBackwardParams params_of(const AttentionBackward& backward, const AttentionExtents& extents) {
  const Attention& forward = backward.forward;
  return {param_of(forward.q),
          param_of(forward.k),
          param_of(forward.v),
          param_of(forward.out),
          param_of(backward.d_out),
          param_of(forward.lse),
          param_of(backward.means),
          param_of(backward.d_q),
          param_of(backward.d_k),
          param_of(backward.d_v),
          static_cast<std::int32_t>(extents.tokens),
          static_cast<std::int32_t>(forward.heads),
          static_cast<std::int32_t>(extents.group),
          static_cast<float>(forward.scale)};
}

}  // namespace

void launch_attention(std::string_view call, const Attention& attention, void* stream) {
  const TensorView &q = attention.q, &k = attention.k, &v = attention.v;
  const AttentionExtents extents(attention);
  require_runnable(call, attention, extents);
  if (extents.tokens == 0) return;
  // One query wastes a block of several.
  const std::int64_t rows = extents.tokens == 1 ? 1 : kRowsOfBlock;
  const std::int64_t blocks = ceil_div(extents.tokens, rows) * attention.heads;
  const AttentionSpec spec{q.dtype(), static_cast<int>(extents.head), static_cast<int>(rows),
                           lies_in_pieces(k) && lies_in_pieces(v)};
  AttentionParams params{param_of(q),
                         param_of(k),
                         param_of(v),
                         param_of(attention.out),
                         param_of(attention.lse),
                         static_cast<std::int32_t>(extents.tokens),
                         static_cast<std::int32_t>(extents.keys),
                         static_cast<std::int32_t>(attention.heads),
                         static_cast<std::int32_t>(extents.group),
                         static_cast<float>(attention.scale * std::numbers::log2e)};
  launch(call, q.device(),
         {concat("attention_", extents.head, "x", rows), emit_attention(spec), kAttentionThreads, blocks, &params},
         stream);
}

void launch_attention_backward(std::string_view call, const AttentionBackward& backward, void* stream) {
  const Attention& forward = backward.forward;
  const AttentionExtents extents(forward);
  require_runnable(call, forward, extents);
  if (extents.tokens == 0) return;
  const int head = static_cast<int>(extents.head);
  const bool keys_in_pieces = lies_in_pieces(forward.k) && lies_in_pieces(forward.v);
  const bool queries_in_pieces = lies_in_pieces(forward.q) && lies_in_pieces(backward.d_out);
  AttentionBackwardParams params = params_of(backward, extents);
  const auto pass = [&](AttentionPass which, const char* name, int rows, bool pieces, std::int64_t blocks) {
    const AttentionSpec spec{forward.q.dtype(), head, rows, pieces};
    launch(call, forward.q.device(),
           {concat("attention_", name, "_", head), emit_attention_backward(which, spec), kAttentionThreads, blocks,
            &params},
           stream);
  };
  const auto blocks_of = [&](int rows) { return ceil_div(extents.tokens, rows); };
  const int keys = keys_of_block(head);
  pass(AttentionPass::Means, "means", kRowsOfBlock, true, ceil_div(extents.tokens * forward.heads, kPairsOfBlock));
  pass(AttentionPass::ByQueries, "by_queries", kRowsOfBlock, keys_in_pieces, blocks_of(kRowsOfBlock) * forward.heads);
  pass(AttentionPass::ByKeys, "by_keys", keys, queries_in_pieces, blocks_of(keys) * forward.kv_heads);
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

void launch_add_rows(std::string_view call, const AddRows& rows, void* stream) {
  const std::int64_t groups = rows.numbers.shape(0), cols = rows.from.shape(1);
  const std::int64_t blocks = groups * ceil_div(cols, kGatherThreads);
  REQUIRE(NotImplementedError, std::max(cols, blocks) <= kMost, call, ": got ", groups, " rows of width ", cols,
          ", expected at most ", kMost, " blocks of ", kGatherThreads, " columns on a GPU");
  if (blocks == 0) return;
  AddRowsParams params{param_of(rows.from),
                       param_of(rows.into),
                       rows.order.data(),
                       rows.starts.data(),
                       rows.numbers.data(),
                       static_cast<std::int32_t>(groups),
                       static_cast<std::int32_t>(cols)};
  launch(call, rows.from.device(),
         {"add_rows", emit_add_rows(rows.from.dtype(), rows.into.dtype()), kGatherThreads, blocks, &params}, stream);
}

}  // namespace coda::cuda
