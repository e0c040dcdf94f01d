// Flash attention: for each block of queries the scores of one block of keys at a time, an online softmax, and the
// weighted values summed. Keys and values are packed once and used by every query head of their group. Blocks of keys
// start at fixed places, so that a row's result depends neither on T nor on other rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "blocks/attention/attention.h"
#include "blocks/attention/kernels.h"
#include "cpu/threads.h"

namespace coda::attention {
namespace {

constexpr std::int64_t kQueries = 64;
constexpr std::int64_t kKeys = 128;

/// A block of keys and values of one head, packed.
struct KeyBlock {
  cpu::PackedPanel keys;    ///< (head × keys)
  cpu::PackedPanel values;  ///< (keys × head)
  bool finite = true;       ///< all values are: else 0·value is not 0
};

/// All blocks of all key heads: block b of head h is at h · blocks + b.
class PackedKeys {
 public:
  explicit PackedKeys(const Call& call)
      : count_((call.keys() + kKeys - 1) / kKeys), blocks_(static_cast<std::size_t>(count_ * call.kv_heads)) {
    cpu::parallel_for(count_ * call.kv_heads, [&](int, std::int64_t index) {
      const std::int64_t col = index / count_ * call.head, row = index % count_ * kKeys;
      const std::int64_t rows = std::min(kKeys, call.keys() - row);
      KeyBlock& block = blocks_[static_cast<std::size_t>(index)];
      const cpu::MatrixRef keys = matrix(call.k, row, col);
      block.keys.pack({keys.data, keys.dtype, keys.col_stride, keys.row_stride}, call.head, rows);
      block.values.pack(matrix(call.v, row, col), rows, call.head);
      block.finite =
          kernels().all_finite(call.v.dtype(), element_at(call.v, row, col), call.v.stride(0), rows, call.head);
    });
  }

  const KeyBlock& at(std::int64_t kv_head, std::int64_t block) const {
    return blocks_[static_cast<std::size_t>(kv_head * count_ + block)];
  }

 private:
  std::int64_t count_;
  std::vector<KeyBlock> blocks_;
};

/// Buffers of one worker, for one block of queries.
struct Scratch {
  explicit Scratch(std::int64_t head)
      : scores(Tensor::empty({kQueries, kKeys}, DType::F32)),
        probabilities(Tensor::empty({kQueries, kKeys}, DType::BF16)),
        out(Tensor::empty({kQueries, head}, DType::F32)) {}
  Tensor scores, probabilities, out;
  float maximum[kQueries], sum[kQueries], rescale[kQueries];
};

class QueryBlock {
 public:
  QueryBlock(const Call& call, const PackedKeys& packed, Scratch& scratch, std::int64_t head_index, std::int64_t row)
      : call_(call),
        packed_(packed),
        scratch_(scratch),
        head_index_(head_index),
        row_(row),
        rows_(std::min(kQueries, call.tokens() - row)) {}

  void run() {
    std::fill_n(scratch_.maximum, rows_, -std::numeric_limits<float>::infinity());
    std::fill_n(scratch_.sum, rows_, 0.0f);
    const std::int64_t last_seen = first_visible() + rows_;
    for (std::int64_t block = 0; block * kKeys < last_seen; ++block) add(block);
    kernels().divide_rows(scratch_.out.data<float>(), call_.head, rows_, call_.head, scratch_.sum, call_.out.dtype(),
                          element_at(call_.out, row_, head_index_ * call_.head), call_.out.stride(0));
    if (call_.lse.data() != nullptr) write_lse();
  }

 private:
  void write_lse() {
    for (std::int64_t r = 0; r < rows_; ++r)
      *static_cast<float*>(element_at(call_.lse, row_ + r, head_index_)) =
          (scratch_.maximum[r] + std::log2(scratch_.sum[r])) * std::numbers::ln2_v<float>;
  }

  /// Keys before the one that row 0 of the block sees last.
  std::int64_t first_visible() const { return call_.keys() - call_.tokens() + row_; }

  void add(std::int64_t index) {
    const KeyBlock& block = packed_.at(head_index_ / call_.group(), index);
    const std::int64_t cols = std::min(kKeys, call_.keys() - index * kKeys);
    float* scores = scratch_.scores.data<float>();
    block.keys.product(matrix(call_.q, row_, head_index_ * call_.head), rows_, scores, kKeys);

    const bool in_place = call_.q.dtype() == DType::F32;
    SoftmaxBlock softmax;
    softmax.scores = scores;
    softmax.pitch = kKeys;
    softmax.rows = rows_;
    softmax.cols = cols;
    softmax.visible = first_visible() + 1 - index * kKeys;
    softmax.visible_step = 1;
    softmax.factor = static_cast<float>(call_.scale * std::numbers::log2e);
    softmax.maximum = scratch_.maximum;
    softmax.sum = scratch_.sum;
    softmax.rescale = scratch_.rescale;
    softmax.dtype = call_.q.dtype();
    softmax.probabilities = in_place ? scores : scratch_.probabilities.view().data();
    kernels().softmax(softmax);

    if (index > 0) kernels().scale_rows(out(), call_.head, rows_, call_.head, scratch_.rescale);
    if (block.finite || softmax.visible >= cols) {
      block.values.product({softmax.probabilities, softmax.dtype, kKeys, 1}, rows_, out(), call_.head, index > 0);
    } else {
      add_seen_values(softmax, index);
    }
  }

  /// For values with infinities or NaN: only those a row sees are touched.
  void add_seen_values(const SoftmaxBlock& softmax, std::int64_t index) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      float* result = out() + r * call_.head;
      if (index == 0) std::fill_n(result, call_.head, 0.0f);
      const std::int64_t seen = std::min(softmax.visible + r, softmax.cols);
      for (std::int64_t j = 0; j < seen; ++j) {
        const double p = load_element(softmax.dtype, softmax.probabilities, r * kKeys + j);
        const void* value = element_at(call_.v, index * kKeys + j, head_index_ / call_.group() * call_.head);
        for (std::int64_t d = 0; d < call_.head; ++d)
          result[d] += static_cast<float>(p * load_element(call_.v.dtype(), value, d));
      }
    }
  }

  float* out() { return scratch_.out.data<float>(); }

  const Call& call_;
  const PackedKeys& packed_;
  Scratch& scratch_;
  std::int64_t head_index_, row_, rows_;
};

}  // namespace

void run_blocked(const Call& call) {
  const PackedKeys packed(call);
  std::vector<Scratch> scratch;
  for (int worker = cpu::parallel_width(); worker > 0; --worker) scratch.emplace_back(call.head);
  const std::int64_t blocks = (call.tokens() + kQueries - 1) / kQueries;
  cpu::parallel_for(blocks * call.heads, [&](int worker, std::int64_t index) {
    // The last queries see the most keys: they go first, so that the workers end together.
    const std::int64_t block = blocks - 1 - index / call.heads;
    QueryBlock(call, packed, scratch[static_cast<std::size_t>(worker)], index % call.heads, block * kQueries).run();
  });
}

}  // namespace coda::attention
