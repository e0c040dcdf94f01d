#include "support/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace coda::testing_support {

std::int64_t columns_of(const Pairing& pairing, std::int64_t n) {
  return pairing.is_none() ? n : n / pairing.head * (pairing.width / 2);
}

Grids random_inputs(const Program& program, std::int64_t m, std::int64_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-2, 2);
  Grids grids;
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t cols, DType dtype) {
    Grid grid(rows, cols);
    for (double& entry : grid.data)
      entry = is_integer(dtype) ? static_cast<double>(random() % 16) : round_to(dtype, real(random));
    grids[name] = std::move(grid);
  };
  for (const char* acc : {"acc(0)", "acc(1)"}) add(acc, m, n, DType::F64);
  for (const Operand& operand : program.operands()) {
    if (operand.role != Role::Input) continue;
    const bool columns = operand.shape == Shape::Tile || operand.shape == Shape::Row;
    const bool rows = operand.shape == Shape::Tile || operand.shape == Shape::Col;
    const std::int64_t width = operand.period != 0 ? operand.period : columns_of(operand.pairing, n);
    add(operand.name, rows ? m : 1, columns ? width : 1, operand.dtype.value_or(DType::F64));
  }
  return grids;
}

namespace {

class Evaluator {
 public:
  Evaluator(const Program& program, const Grids& inputs, std::int64_t m, std::int64_t n)
      : program_(program), inputs_(inputs), m_(m), n_(n) {}

  Grids run() {
    Grids outputs;
    for (const Node& node : program_.nodes()) {
      values_.push_back(value(node));
      if (node.kind == NodeKind::Store) outputs[program_.operand(node.index).name] = values_.back();
    }
    return outputs;
  }

 private:
  const Grid& arg(const Node& node, std::size_t i) const { return values_[static_cast<std::size_t>(node.args[i])]; }

  Grid blank(const Type& type) const {
    const bool columns = type.shape == Shape::Tile || type.shape == Shape::Row;
    const bool rows = type.shape == Shape::Tile || type.shape == Shape::Col;
    return Grid(rows ? m_ : 1, columns ? columns_of(type.pairing, n_) : 1);
  }

  template <class Entry>
  Grid filled(const Node& node, Entry entry) const {
    Grid grid = blank(node.type);
    for (std::int64_t i = 0; i < grid.rows; ++i)
      for (std::int64_t j = 0; j < grid.cols; ++j) grid.at(i, j) = entry(i, j);
    return grid;
  }

  // Full-width column of member `index` of pair j.
  static std::int64_t column(const Pairing& p, int index, std::int64_t j) {
    const std::int64_t half = p.width / 2, head = j / half * p.head, pair = j % half;
    return head + (p.kind == Pairing::Kind::Halves ? pair + index * half : 2 * pair + index);
  }

  Grid value(const Node& node) const {
    switch (node.kind) {
      case NodeKind::Acc: return inputs_.at("acc(" + std::to_string(node.index) + ")");
      case NodeKind::Const: return filled(node, [&](auto, auto) { return node.value; });
      case NodeKind::Load: return load(node);
      case NodeKind::Index:
        return filled(node, [&](std::int64_t i, std::int64_t j) {
          return static_cast<double>(node.axis == Axis::Col ? i : node.period != 0 ? j % node.period : j);
        });
      case NodeKind::Map: return map(node);
      case NodeKind::Split:
        return filled(node, [&](auto i, auto j) { return arg(node, 0).at(i, column(node.pairing, node.index, j)); });
      case NodeKind::Join: return join(node);
      case NodeKind::SpanReduce: return span_sum(node);
      case NodeKind::Reduce: return reduce(node);
      case NodeKind::Round:
        return filled(node, [&](auto i, auto j) { return round_to(node.dtype, arg(node, 0).at(i, j)); });
      case NodeKind::SelectCol: return select_col(node);
      case NodeKind::Store: return arg(node, 0);
    }
    return {};
  }

  Grid load(const Node& node) const {
    const Operand& operand = program_.operand(node.index);
    const Grid& from = inputs_.at(operand.name);
    return filled(
        node, [&](std::int64_t i, std::int64_t j) { return from.at(i, operand.period != 0 ? j % operand.period : j); });
  }

  Grid map(const Node& node) const {
    return filled(node, [&](std::int64_t i, std::int64_t j) {
      double args[3] = {};
      for (std::size_t a = 0; a < node.args.size(); ++a) args[a] = arg(node, a).at(i, j);
      return op_row(node.op).reference(args);
    });
  }

  Grid join(const Node& node) const {
    const Pairing& p = node.pairing;
    Grid grid = p.has_rest() ? filled(node, [&](auto i, auto j) { return arg(node, 2).at(i, j); }) : blank(node.type);
    for (std::int64_t i = 0; i < grid.rows; ++i)
      for (std::int64_t j = 0; j < columns_of(p, n_); ++j)
        for (int member = 0; member < 2; ++member)
          grid.at(i, column(p, member, j)) = arg(node, static_cast<std::size_t>(member)).at(i, j);
    return grid;
  }

  Grid span_sum(const Node& node) const {
    return filled(node, [&](std::int64_t i, std::int64_t j) {
      double sum = 0;
      for (std::int64_t c = 0; c < node.period; ++c) sum += arg(node, 0).at(i, j / node.period * node.period + c);
      return sum;
    });
  }

  Grid reduce(const Node& node) const {
    const std::int64_t width = node.period, extent = node.axis == Axis::Row ? n_ : m_;
    const std::int64_t count = (extent + width - 1) / width;
    Grid grid = node.axis == Axis::Row ? Grid(m_, count) : Grid(count, n_);
    for (std::int64_t i = 0; i < grid.rows; ++i)
      for (std::int64_t j = 0; j < grid.cols; ++j) {
        std::vector<double> entries;
        const std::int64_t begin = (node.axis == Axis::Row ? j : i) * width;
        for (std::int64_t e = begin; e < std::min(begin + width, extent); ++e)
          entries.push_back(node.axis == Axis::Row ? arg(node, 0).at(i, e) : arg(node, 0).at(e, j));
        grid.data[static_cast<std::size_t>(i * grid.cols + j)] = reduced(node.reduction, entries);
      }
    return grid;
  }

  static double reduced(Reduction reduction, const std::vector<double>& entries) {
    double sum = 0, most = -std::numeric_limits<double>::infinity();
    for (const double entry : entries) {
      sum += entry;
      most = std::isnan(entry) || entry > most ? entry : most;
    }
    if (reduction == Reduction::Sum) return sum;
    if (reduction == Reduction::Max || std::isinf(most)) return std::isnan(sum) && !std::isinf(most) ? sum : most;
    double exponentials = 0;
    for (const double entry : entries) exponentials += std::exp(entry - most);
    return most + std::log(exponentials);
  }

  Grid select_col(const Node& node) const {
    return filled(node, [&](std::int64_t i, std::int64_t) {
      const auto index = static_cast<std::int64_t>(arg(node, 1).at(i, 0));
      return node.ignored == index ? 0 : arg(node, 0).at(i, index);
    });
  }

  const Program& program_;
  const Grids& inputs_;
  std::int64_t m_, n_;
  std::vector<Grid> values_;
};

}  // namespace

Grids evaluate(const Program& program, const Grids& inputs, std::int64_t m, std::int64_t n) {
  return Evaluator(program, inputs, m, n).run();
}

}  // namespace coda::testing_support
