#include "blocks/llama/embedding_gradient.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "blocks/indices.h"
#include "cpu/threads.h"
#include "cuda/launch/blocks.h"

namespace coda {
namespace {

/// Element (row, col) of a view of any strides.
std::int64_t place(const TensorView& view, std::int64_t row, std::int64_t col) {
  return row * view.stride(0) + col * view.stride(1);
}

/// Tokens by their number: group g has tokens order[starts[g]] … order[starts[g + 1] − 1], in ascending order.
struct Groups {
  std::vector<std::int64_t> order, starts, numbers;

  explicit Groups(std::span<const std::int64_t> tokens) : order(tokens.size()) {
    const auto number = [&](std::int64_t token) { return tokens[static_cast<std::size_t>(token)]; };
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return number(a) < number(b); });
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && number(order[i]) == number(order[i - 1])) continue;
      starts.push_back(static_cast<std::int64_t>(i));
      numbers.push_back(number(order[i]));
    }
    starts.push_back(static_cast<std::int64_t>(order.size()));
  }

  std::span<const std::int64_t> rows(std::size_t group) const {
    const auto start = static_cast<std::size_t>(starts[group]), stop = static_cast<std::size_t>(starts[group + 1]);
    return std::span(order).subspan(start, stop - start);
  }
};

void add_rows(const TensorView& d_x, std::span<const std::int64_t> rows, const TensorView& into, std::int64_t number) {
  for (std::int64_t col = 0; col < d_x.shape(1); ++col) {
    double sum = load_element(into.dtype(), into.data(), place(into, number, col));
    for (const std::int64_t row : rows) sum += load_element(d_x.dtype(), d_x.data(), place(d_x, row, col));
    store_element(into.dtype(), into.data(), place(into, number, col), sum);
  }
}

}  // namespace

void add_embedding_gradient(std::string_view call, const TensorView& d_x, std::span<const std::int64_t> numbers,
                            const TensorView& into, const Execution& where) {
  const Groups groups(numbers);
  if (d_x.device().kind == DeviceKind::Cuda) {
    const auto there = [&](const std::vector<std::int64_t>& vector) { return indices_on(d_x.device(), vector, where); };
    const Tensor order = there(groups.order), starts = there(groups.starts), rows = there(groups.numbers);
    cuda::launch_add_rows(call, {d_x, into, order, starts, rows}, where.stream);
    return;
  }
  cpu::parallel_for(static_cast<std::int64_t>(groups.numbers.size()), [&](int, std::int64_t index) {
    const auto group = static_cast<std::size_t>(index);
    add_rows(d_x, groups.rows(group), into, groups.numbers[group]);
  });
}

}  // namespace coda
