// Flash attention's backward: scores of a block of queries and a block of keys are made again from the log-sum-exp, in
// two passes. One sums the gradients by a block of queries over the keys they see, the other those by a block of keys
// and values over the queries of their group that see them: each result is summed by one worker in a fixed order.
#include <algorithm>
#include <vector>

#include "blocks/attention/attention.h"
#include "blocks/attention/kernels.h"
#include "cpu/threads.h"

namespace coda::attention {
namespace {

constexpr std::int64_t kQueries = 64;
constexpr std::int64_t kKeys = 128;

cpu::MatrixRef transposed(const cpu::MatrixRef& m) { return {m.data, m.dtype, m.col_stride, m.row_stride}; }

/// Σ probability · gradient of each row and head, which is ⟨d_out, out⟩: (heads, T).
std::vector<float> means_of(const BackwardCall& call) {
  const Call& forward = call.forward;
  const std::int64_t tokens = forward.tokens();
  std::vector<float> means(static_cast<std::size_t>(forward.heads * tokens));
  cpu::parallel_for(forward.heads, [&](int, std::int64_t index) {
    const std::int64_t col = index * forward.head;
    kernels().row_dots(forward.q.dtype(), element_at(call.d_out, 0, col), call.d_out.stride(0),
                       element_at(forward.out, 0, col), forward.out.stride(0), tokens, forward.head,
                       means.data() + index * tokens);
  });
  return means;
}

/// A block of queries and one of keys.
struct Block {
  std::int64_t row, rows, key, keys;

  bool sees(std::int64_t query, std::int64_t of_keys) const { return key + of_keys <= row + query; }
  bool sees_all() const { return sees(0, keys - 1); }
};

/// What a gradient is summed for: each query, over keys, or each key, over queries.
enum class By : std::uint8_t { Query, Key };

/// Buffers of one worker.
struct Scratch {
  Scratch(std::int64_t head, DType dtype)
      : scores(Tensor::empty({kQueries, kKeys}, DType::F32)),
        d_probabilities(Tensor::empty({kQueries, kKeys}, DType::F32)),
        probabilities(Tensor::empty({kQueries, kKeys}, dtype)),
        d_scores(Tensor::empty({kQueries, kKeys}, dtype)),
        sums{Tensor::empty({kKeys, head}, DType::F32), Tensor::empty({kKeys, head}, DType::F32)} {}
  Tensor scores, d_probabilities, probabilities, d_scores;
  Tensor sums[2];  ///< gradients by queries; or by keys and by values
};

class Worker {
 public:
  Worker(const BackwardCall& call, const std::vector<float>& means, Scratch& scratch)
      : call_(call), forward_(call.forward), means_(means), scratch_(scratch) {}

  /// Gradients by a block of queries of one head.
  void queries(std::int64_t head_index, std::int64_t row) {
    const std::int64_t rows = std::min(kQueries, forward_.tokens() - row), head = forward_.head;
    float* sum = scratch_.sums[0].data<float>();
    for (std::int64_t key = 0; key < row + rows; key += kKeys) {
      const Block block = scores(head_index, row, key);
      add(block, By::Query, scratch_.d_scores, forward_.k, kv_col(head_index), sum, key > 0);
    }
    write(sum, call_.d_q, row, rows, head_index * head);
  }

  /// Gradients by a block of keys and values of one key head.
  void keys(std::int64_t kv_head, std::int64_t key) {
    const std::int64_t keys = std::min(kKeys, forward_.keys() - key), head = forward_.head;
    float *d_k = scratch_.sums[0].data<float>(), *d_v = scratch_.sums[1].data<float>();
    bool is_later = false;
    for (std::int64_t g = 0; g < forward_.group(); ++g) {
      const std::int64_t head_index = kv_head * forward_.group() + g, col = head_index * head;
      for (std::int64_t row = key / kQueries * kQueries; row < forward_.tokens(); row += kQueries) {
        const Block block = scores(head_index, row, key);
        add(block, By::Key, scratch_.d_scores, forward_.q, col, d_k, is_later);
        add(block, By::Key, scratch_.probabilities, call_.d_out, col, d_v, is_later);
        is_later = true;
      }
    }
    write(d_k, call_.d_k, key, keys, kv_head * head);
    write(d_v, call_.d_v, key, keys, kv_head * head);
  }

 private:
  std::int64_t kv_col(std::int64_t head_index) const { return head_index / forward_.group() * forward_.head; }

  static cpu::MatrixRef whole(const Tensor& block) { return matrix(block, 0, 0); }

  /// Adds to (or begins) the sums the products of a block's weights with the rows of `with`, from column `col` on.
  void add(const Block& block, By by, const Tensor& weights, const TensorView& with, std::int64_t col, float* sum,
           bool is_later) const {
    const bool is_by_query = by == By::Query;
    const std::int64_t first = is_by_query ? block.key : block.row, terms = is_by_query ? block.keys : block.rows;
    const std::int64_t results = is_by_query ? block.rows : block.keys, head = forward_.head;
    if (block.sees_all() ||
        kernels().all_finite(with.dtype(), element_at(with, first, col), with.stride(0), terms, head))
      cpu::panel_product(is_by_query ? whole(weights) : transposed(whole(weights)), matrix(with, first, col), results,
                         head, terms, sum, head, is_later);
    else
      add_seen(block, by, weights, with, col, sum, is_later);
  }

  /// The same for rows with infinities or NaN: a weight is 0 where a query does not see a key, but 0·NaN is not.
  void add_seen(const Block& block, By by, const Tensor& weights, const TensorView& with, std::int64_t col, float* sum,
                bool is_later) const {
    const std::int64_t head = forward_.head;
    const TensorView& of = weights;
    if (!is_later) std::fill_n(sum, (by == By::Query ? block.rows : block.keys) * head, 0.0f);
    for (std::int64_t query = 0; query < block.rows; ++query)
      for (std::int64_t key = 0; key < block.keys && block.sees(query, key); ++key) {
        const double weight = load_element(of.dtype(), of.data(), query * kKeys + key);
        float* to = sum + (by == By::Query ? query : key) * head;
        const void* row = element_at(with, by == By::Query ? block.key + key : block.row + query, col);
        for (std::int64_t d = 0; d < head; ++d)
          to[d] += static_cast<float>(weight * load_element(with.dtype(), row, d));
      }
  }

  /// Probabilities and gradients by the scores of a block of queries and one of keys.
  Block scores(std::int64_t head_index, std::int64_t row, std::int64_t key) {
    const std::int64_t rows = std::min(kQueries, forward_.tokens() - row), col = head_index * forward_.head;
    const std::int64_t keys = std::min(kKeys, forward_.keys() - key), kv = kv_col(head_index);
    float lse[kQueries];
    for (std::int64_t r = 0; r < rows; ++r)
      lse[r] = *static_cast<const float*>(element_at(forward_.lse, row + r, head_index));
    GradientBlock block;
    float *made = scratch_.scores.data<float>(), *d_made = scratch_.d_probabilities.data<float>();
    block.scores = made;
    block.d_probabilities = d_made;
    cpu::panel_product(matrix(forward_.q, row, col), transposed(matrix(forward_.k, key, kv)), rows, keys, forward_.head,
                       made, kKeys);
    cpu::panel_product(matrix(call_.d_out, row, col), transposed(matrix(forward_.v, key, kv)), rows, keys,
                       forward_.head, d_made, kKeys);
    block.pitch = kKeys;
    block.rows = rows;
    block.cols = keys;
    block.visible = row + 1 - key;
    block.visible_step = 1;
    block.scale = static_cast<float>(forward_.scale);
    block.lse = lse;
    block.mean = means_.data() + head_index * forward_.tokens() + row;
    block.dtype = forward_.q.dtype();
    block.probabilities = scratch_.probabilities.view().data();
    block.d_scores = scratch_.d_scores.view().data();
    kernels().gradient(block);
    return {row, rows, key, keys};
  }

  void write(const float* sum, const TensorView& to, std::int64_t row, std::int64_t rows, std::int64_t col) {
    float ones[kKeys];
    std::fill_n(ones, rows, 1.0f);
    kernels().divide_rows(sum, forward_.head, rows, forward_.head, ones, to.dtype(), element_at(to, row, col),
                          to.stride(0));
  }

  const BackwardCall& call_;
  const Call& forward_;
  const std::vector<float>& means_;
  Scratch& scratch_;
};

}  // namespace

void run_backward(const BackwardCall& call) {
  const Call& forward = call.forward;
  const std::vector<float> means = means_of(call);
  std::vector<Scratch> scratch;
  for (int worker = cpu::parallel_width(); worker > 0; --worker) scratch.emplace_back(forward.head, forward.q.dtype());
  const auto worker_of = [&](int worker) { return Worker(call, means, scratch[static_cast<std::size_t>(worker)]); };
  const std::int64_t query_blocks = (forward.tokens() + kQueries - 1) / kQueries;
  const std::int64_t key_blocks = (forward.keys() + kKeys - 1) / kKeys;
  // What takes longest goes first: the last queries see the most keys, the first keys are seen by the most queries.
  cpu::parallel_for(query_blocks * forward.heads, [&](int worker, std::int64_t index) {
    worker_of(worker).queries(index % forward.heads, (query_blocks - 1 - index / forward.heads) * kQueries);
  });
  cpu::parallel_for(key_blocks * forward.kv_heads, [&](int worker, std::int64_t index) {
    worker_of(worker).keys(index % forward.kv_heads, index / forward.kv_heads * kKeys);
  });
}

}  // namespace coda::attention
