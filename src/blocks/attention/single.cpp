// Attention of one query: the keys are cut into chunks, each chunk gives its softmax state and weighted values, and
// the chunks are joined in order.
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

constexpr std::int64_t kChunk = 256;

/// What a chunk found for each query head of a group.
struct Partial {
  std::vector<float> maximum, sum, out;
};

std::vector<float> queries_of(const Call& call) {
  std::vector<float> queries(static_cast<std::size_t>(call.heads * call.head));
  for (std::size_t i = 0; i < queries.size(); ++i)
    queries[i] = static_cast<float>(load_element(call.q.dtype(), call.q.data(), static_cast<std::int64_t>(i)));
  return queries;
}

Partial run_chunk(const Call& call, const float* queries, std::int64_t kv_head, std::int64_t first) {
  const std::int64_t group = call.group(), count = std::min(kChunk, call.keys() - first);
  const auto rows = static_cast<std::size_t>(group);
  Partial partial{std::vector<float>(rows, -std::numeric_limits<float>::infinity()), std::vector<float>(rows, 0.0f),
                  std::vector<float>(rows * static_cast<std::size_t>(call.head))};
  std::vector<float> scores(rows * kChunk), rescale(rows);
  const std::int64_t col = kv_head * call.head;
  kernels().dot(queries, group, call.k.dtype(), element_at(call.k, first, col), call.k.stride(0), count, call.head,
                scores.data(), kChunk);
  SoftmaxBlock softmax;
  softmax.scores = scores.data();
  softmax.pitch = kChunk;
  softmax.rows = group;
  softmax.cols = count;
  softmax.visible = count;
  softmax.visible_step = 0;
  softmax.factor = static_cast<float>(call.scale * std::numbers::log2e);
  softmax.maximum = partial.maximum.data();
  softmax.sum = partial.sum.data();
  softmax.rescale = rescale.data();
  softmax.dtype = DType::F32;
  softmax.probabilities = scores.data();
  kernels().softmax(softmax);
  kernels().combine(scores.data(), kChunk, group, call.v.dtype(), element_at(call.v, first, col), call.v.stride(0),
                    count, call.head, partial.out.data());
  return partial;
}

/// Joins the chunks of one key head and writes its query heads.
void join(const Call& call, const Partial* partials, std::int64_t chunks, std::int64_t kv_head) {
  std::vector<double> out(static_cast<std::size_t>(call.head));
  for (std::int64_t g = 0; g < call.group(); ++g) {
    const auto row = static_cast<std::size_t>(g);
    float maximum = -std::numeric_limits<float>::infinity();
    for (std::int64_t c = 0; c < chunks; ++c) maximum = std::max(maximum, partials[c].maximum[row]);
    double sum = 0;
    std::fill(out.begin(), out.end(), 0.0);
    for (std::int64_t c = 0; c < chunks; ++c) {
      if (partials[c].sum[row] == 0) continue;  // −inf alone: it weighs nothing
      const double weight = std::exp2(static_cast<double>(partials[c].maximum[row]) - static_cast<double>(maximum));
      sum += weight * static_cast<double>(partials[c].sum[row]);
      for (std::size_t d = 0; d < out.size(); ++d)
        out[d] += weight * static_cast<double>(partials[c].out[row * out.size() + d]);
    }
    const std::int64_t col = (kv_head * call.group() + g) * call.head;
    for (std::size_t d = 0; d < out.size(); ++d)
      store_element(call.out.dtype(), element_at(call.out, 0, col), static_cast<std::int64_t>(d), out[d] / sum);
  }
}

}  // namespace

void run_single(const Call& call) {
  const std::int64_t chunks = (call.keys() + kChunk - 1) / kChunk;
  const std::vector<float> queries = queries_of(call);
  std::vector<Partial> partials(static_cast<std::size_t>(chunks * call.kv_heads));
  cpu::parallel_for(chunks * call.kv_heads, [&](int, std::int64_t index) {
    const std::int64_t kv_head = index / chunks;
    partials[static_cast<std::size_t>(index)] =
        run_chunk(call, queries.data() + kv_head * call.group() * call.head, kv_head, index % chunks * kChunk);
  });
  for (std::int64_t kv_head = 0; kv_head < call.kv_heads; ++kv_head)
    join(call, partials.data() + kv_head * chunks, chunks, kv_head);
}

}  // namespace coda::attention
