#include "cpu/reference_nodes.h"

#include <algorithm>

#include "core/check.h"
#include "problem/products.h"
#include "problem/reducer.h"

namespace coda::cpu {
namespace {

bool spans_rows(const Type& type) { return type.shape == Shape::Tile || type.shape == Shape::Col; }
bool spans_columns(const Type& type) { return type.shape == Shape::Tile || type.shape == Shape::Row; }

// Sets each entry to fn(row, col).
template <class Fn>
Block fill(Block block, Fn&& fn) {
  for (std::int64_t r = 0; r < block.rows; ++r)
    for (std::int64_t c = 0; c < block.cols; ++c) block.data[static_cast<std::size_t>(r * block.cols + c)] = fn(r, c);
  return block;
}

// The full-width column of member 0 or 1 of pair `pair` of an output.
std::int64_t column_of(const Pairing& pairing, std::int64_t pair, int member) {
  const std::int64_t pairs = pairing.width / 2;
  const std::int64_t head = pair / pairs * pairing.head;
  const std::int64_t within = pair % pairs;
  return head + (pairing.kind == Pairing::Kind::Halves ? within + member * pairs : 2 * within + member);
}

// Adds a·b for rows [first, first + sum.rows) of a, one step of the depth after the other.
void add_product(const Product& product, std::int64_t first, Block& sum) {
  std::vector<double> line(static_cast<std::size_t>(sum.cols));
  for (std::int64_t k = 0; k < product.a.shape(1); ++k) {
    for (std::int64_t c = 0; c < sum.cols; ++c) line[static_cast<std::size_t>(c)] = product.b.at(k, c);
    for (std::int64_t r = 0; r < sum.rows; ++r) {
      const double a = product.a.at(first + r, k);
      double* out = sum.data.data() + r * sum.cols;
      for (std::int64_t c = 0; c < sum.cols; ++c) out[c] += a * line[static_cast<std::size_t>(c)];
    }
  }
}

}  // namespace

void NodeInterpreter::run(const RowRange& range) {
  range_ = range;
  values_.clear();
  for (const Node& node : segment_.program.nodes())
    values_.push_back(node.kind == NodeKind::Store ? Block{} : evaluate(node));
  for (const Node& node : segment_.program.nodes())
    if (node.kind == NodeKind::Store) store(node);
}

Block NodeInterpreter::evaluate(const Node& node) const {
  switch (node.kind) {
    case NodeKind::Acc: return accumulator(node.index);
    case NodeKind::Const: return fill(block_of(node.type), [&](auto, auto) { return node.value; });
    case NodeKind::Load: return load(node);
    case NodeKind::Index: return index(node);
    case NodeKind::Map: return map(node);
    case NodeKind::Split: return split(node);
    case NodeKind::Join: return join(node);
    case NodeKind::SpanReduce: return span_reduce(node);
    case NodeKind::Reduce: return reduce(node);
    case NodeKind::Round: return round(node);
    case NodeKind::SelectCol: return select_col(node);
    case NodeKind::Store: break;
  }
  INVARIANT(false, "reference: node kind ", static_cast<int>(node.kind));
}

std::int64_t NodeInterpreter::width_of(const Type& type) const {
  if (!spans_columns(type)) return 1;
  if (type.pairing.is_none()) return segment_.cols;
  return segment_.cols / type.pairing.head * (type.pairing.width / 2);
}

Block NodeInterpreter::empty_block(std::int64_t rows, std::int64_t cols) const {
  return {rows, cols, cols, 1, std::vector<double>(static_cast<std::size_t>(rows * cols), 0.0)};
}

Block NodeInterpreter::block_of(const Type& type) const {
  Block block = empty_block(spans_rows(type) ? range_.count : 1, width_of(type));
  if (!spans_rows(type)) block.row_stride = 0;
  if (!spans_columns(type)) block.col_stride = 0;
  return block;
}

Block NodeInterpreter::accumulator(int which) const {
  Block sum = block_of({Shape::Tile});
  for (const Product& product : products_of(problem_, number_, which)) add_product(product, range_.first, sum);
  return sum;
}

Block NodeInterpreter::load(const Node& node) const {
  const Operand& operand = segment_.program.operand(node.index);
  const TensorView& tensor = segment_.operands[static_cast<std::size_t>(node.index)];
  if (operand.partials) return load_partials(operand, tensor);
  const std::int64_t first = spans_rows(node.type) ? range_.first : 0;
  return fill(block_of(node.type), [&](std::int64_t r, std::int64_t c) {
    return entry(tensor, first + r, operand.period > 0 ? c % operand.period : c);
  });
}

Block NodeInterpreter::load_partials(const Operand& operand, const TensorView& tensor) const {
  const bool by_row = operand.partials->axis == Axis::Row;
  return fill(block_of({operand.shape}), [&](std::int64_t r, std::int64_t c) {
    return finish(tensor, *operand.partials, by_row ? range_.first + r : c);
  });
}

Block NodeInterpreter::index(const Node& node) const {
  return fill(block_of(node.type), [&](std::int64_t r, std::int64_t c) {
    if (node.axis == Axis::Col) return static_cast<double>(range_.first + r);
    return static_cast<double>(node.period > 0 ? c % node.period : c);
  });
}

Block NodeInterpreter::map(const Node& node) const {
  const auto formula = op_row(node.op).reference;
  return fill(block_of(node.type), [&](std::int64_t r, std::int64_t c) {
    double args[3] = {};
    for (std::size_t i = 0; i < node.args.size(); ++i) args[i] = value(node.args[i]).at(r, c);
    return formula(args);
  });
}

Block NodeInterpreter::split(const Node& node) const {
  const Block& whole = value(node.args[0]);
  return fill(block_of(node.type), [&](std::int64_t r, std::int64_t pair) {
    return whole.at(r, column_of(node.pairing, pair, node.index));
  });
}

Block NodeInterpreter::join(const Node& node) const {
  Block block = block_of(node.type);
  if (node.args.size() > 2) {
    const Block& rest = value(node.args[2]);
    block = fill(std::move(block), [&](std::int64_t r, std::int64_t c) { return rest.at(r, c); });
  }
  for (int member = 0; member < 2; ++member) {
    const Block& half = value(node.args[static_cast<std::size_t>(member)]);
    for (std::int64_t r = 0; r < block.rows; ++r)
      for (std::int64_t pair = 0; pair < half.cols; ++pair)
        block.data[static_cast<std::size_t>(r * block.cols + column_of(node.pairing, pair, member))] = half.at(r, pair);
  }
  return block;
}

Block NodeInterpreter::span_reduce(const Node& node) const {
  const Block& tile = value(node.args[0]);
  Block block = block_of(node.type);
  for (std::int64_t r = 0; r < block.rows; ++r) {
    for (std::int64_t head = 0; head < block.cols; head += node.period) {
      double sum = 0;
      for (std::int64_t c = head; c < head + node.period; ++c) sum += tile.at(r, c);
      std::fill_n(block.data.begin() + r * block.cols + head, node.period, sum);
    }
  }
  return block;
}

Block NodeInterpreter::reduce(const Node& node) const {
  const Block& tile = value(node.args[0]);
  const bool by_row = node.axis == Axis::Row;
  const std::int64_t width = node.period;
  const auto partials = [&](std::int64_t extent) { return (extent + width - 1) / width; };
  Block block = by_row ? empty_block(tile.rows, partials(tile.cols)) : empty_block(partials(tile.rows), tile.cols);
  const std::int64_t extent = by_row ? tile.cols : tile.rows;
  return fill(std::move(block), [&](std::int64_t r, std::int64_t c) {
    Reducer reducer(node.reduction);
    const std::int64_t first = (by_row ? c : r) * width;
    for (std::int64_t i = first; i < std::min(first + width, extent); ++i)
      reducer.add(by_row ? tile.at(r, i) : tile.at(i, c));
    return reducer.result();
  });
}

Block NodeInterpreter::round(const Node& node) const {
  const Block& exact = value(node.args[0]);
  return fill(block_of(node.type),
              [&](std::int64_t r, std::int64_t c) { return round_to(node.dtype, exact.at(r, c)); });
}

Block NodeInterpreter::select_col(const Node& node) const {
  const Block& tile = value(node.args[0]);
  const Block& column = value(node.args[1]);
  return fill(block_of(node.type), [&](std::int64_t r, std::int64_t) {
    const double at = column.at(r, 0);
    if (node.ignored && at == static_cast<double>(*node.ignored)) return 0.0;
    INVARIANT(at >= 0 && at < static_cast<double>(tile.cols), "reference: check_indices let index ", at, " pass");
    return tile.at(r, static_cast<std::int64_t>(at));
  });
}

void NodeInterpreter::store(const Node& node) const {
  const Operand& operand = segment_.program.operand(node.index);
  const TensorView& out = segment_.operands[static_cast<std::size_t>(node.index)];
  const Block& from = value(node.args[0]);
  // A value without rows is the same for every block of rows; it is written after the last has read its inputs.
  const bool once = !operand.partials && !spans_rows({operand.shape});
  if (once && !range_.is_last) return;
  std::int64_t first = once ? 0 : range_.first;
  if (operand.partials && operand.partials->axis == Axis::Col) first /= operand.partials->width;
  for (std::int64_t r = 0; r < from.rows; ++r) {
    for (std::int64_t c = 0; c < from.cols; ++c) {
      const std::int64_t place = (first + r) * out.stride(0) + c * out.stride(1);
      const double before = operand.role == Role::Accumulate ? load_element(out.dtype(), out.data(), place) : 0.0;
      store_element(out.dtype(), out.data(), place,
                    operand.role == Role::Accumulate ? before + from.at(r, c) : from.at(r, c));
    }
  }
}

}  // namespace coda::cpu
