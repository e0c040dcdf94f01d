#include "blocks/llama/embedding_gradient.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cpu/threads.h"

namespace coda {
namespace {

/// Element (row, col) of a view of any strides.
std::int64_t place(const TensorView& view, std::int64_t row, std::int64_t col) {
  return row * view.stride(0) + col * view.stride(1);
}

void add_rows(const TensorView& d_x, std::span<const std::size_t> rows, const TensorView& into, std::int64_t number) {
  for (std::int64_t col = 0; col < d_x.shape(1); ++col) {
    double sum = load_element(into.dtype(), into.data(), place(into, number, col));
    for (const std::size_t row : rows)
      sum += load_element(d_x.dtype(), d_x.data(), place(d_x, static_cast<std::int64_t>(row), col));
    store_element(into.dtype(), into.data(), place(into, number, col), sum);
  }
}

}  // namespace

void add_embedding_gradient(const TensorView& d_x, std::span<const std::int64_t> numbers, const TensorView& into) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return numbers[a] < numbers[b]; });
  std::vector<std::size_t> starts;  // of the stretches of one number
  for (std::size_t i = 0; i < order.size(); ++i)
    if (i == 0 || numbers[order[i]] != numbers[order[i - 1]]) starts.push_back(i);
  cpu::parallel_for(static_cast<std::int64_t>(starts.size()), [&](int, std::int64_t index) {
    const auto at = static_cast<std::size_t>(index);
    const std::size_t start = starts[at], stop = at + 1 < starts.size() ? starts[at + 1] : order.size();
    add_rows(d_x, std::span(order).subspan(start, stop - start), into, numbers[order[start]]);
  });
}

}  // namespace coda
