// coda explain layer: what a decoder layer keeps of a token for its backward, under each policy.
#include <algorithm>
#include <iostream>

#include "cli/command.h"
#include "cli/table.h"
#include "coda/training.h"

namespace coda::cli {
namespace {

struct LayerSizes {
  std::int64_t width = 4096, heads = 32, kv_heads = 8, head = 128, mlp = 14336;
  std::string dtype = "bf16";
  bool qk_norm = false;
};

constexpr std::int64_t kMaxSize = std::int64_t{1} << 20;

/// One token through a layer whose weights are zero and share their memory: what is kept is what the forward keeps.
SavedLayer kept_of(const LayerSizes& sizes, SavedPolicy policy) {
  const DType dtype = dtype_from_name(sizes.dtype).value();
  const std::int64_t q = sizes.heads * sizes.head, kv = sizes.kv_heads * sizes.head, d = sizes.width, f = sizes.mlp;
  const Tensor memory = Tensor::zeros({std::max({q, kv, f}) * d}, dtype);
  const auto vector = [&](std::int64_t entries) { return memory.view().slice(0, 0, entries); };
  const auto matrix = [&](std::int64_t rows, std::int64_t cols) { return vector(rows * cols).reshaped({rows, cols}); };
  LayerWeights weights;
  weights.input_norm = weights.post_norm = RmsNorm{vector(d)};
  weights.qkv.q = matrix(q, d);
  weights.qkv.k = weights.qkv.v = matrix(kv, d);
  if (sizes.qk_norm) weights.qkv.q_norm = weights.qkv.k_norm = RmsNorm{vector(sizes.head)};
  weights.o = matrix(d, q);
  weights.gate = weights.up = matrix(f, d);
  weights.down = matrix(d, f);
  const Tensor positions = Tensor::zeros({1}, DType::F32);
  const LayerConfig config{sizes.heads, sizes.kv_heads, sizes.head, {.head = sizes.head}, "swiglu"};
  SavedLayer saved;
  transformer_layer_saved(enter_norm(matrix(1, d), weights.input_norm), weights, config, {positions.view(), {}, {}, {}},
                          weights.input_norm, {1, policy}, saved);
  return saved;
}

int explain_layer(const LayerSizes& sizes) {
  const SavedLayer fast = kept_of(sizes, SavedPolicy::Fast), lean = kept_of(sizes, SavedPolicy::Lean);
  const std::vector<SavedItem> of_lean = saved_items(lean);
  const auto bytes = [](std::int64_t number) { return std::to_string(number); };
  std::vector<std::vector<std::string>> rows{{"bytes kept of a token", "fast", "lean"}};
  for (const SavedItem& item : saved_items(fast)) {
    const auto same = std::ranges::find(of_lean, item.what, &SavedItem::what);
    rows.push_back({std::string(item.what), bytes(item.bytes), bytes(same == of_lean.end() ? 0 : same->bytes)});
  }
  rows.push_back({"a layer", bytes(saved_bytes(fast)), bytes(saved_bytes(lean))});
  std::cout << table_text(rows, "lrr");
  return kOk;
}

}  // namespace

Command explain_layer_command(CLI::App& explain) {
  CLI::App* app = explain.add_subcommand("layer", "What a decoder layer keeps of a token for its backward");
  app->footer(
      "The sizes are those of LLaMA-3 8B unless others are given.\nExample:\n"
      "  coda explain layer --width 576 --heads 9 --kv-heads 3 --head 64 --mlp 1536");
  const auto sizes = std::make_shared<LayerSizes>();
  const auto add = [&](const char* name, std::int64_t& size, const char* what) {
    app->add_option(name, size, what)->check(CLI::Range(std::int64_t{1}, kMaxSize))->capture_default_str();
  };
  add("--width", sizes->width, "Columns of the stream");
  add("--heads", sizes->heads, "Heads of queries");
  add("--kv-heads", sizes->kv_heads, "Heads of keys and values");
  add("--head", sizes->head, "Columns of a head");
  add("--mlp", sizes->mlp, "Columns of gate and up");
  app->add_option("--dtype", sizes->dtype, "Of the stream")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}))
      ->capture_default_str();
  app->add_flag("--qk-norm", sizes->qk_norm, "The heads of queries and keys have norms of their own");
  return {app, [sizes] { return explain_layer(*sizes); }};
}

}  // namespace coda::cli
