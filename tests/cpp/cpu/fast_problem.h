// A program with random tensors for all its operands, and twins of its outputs: what compares backend "fast" with
// "reference".
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "coda/error.h"
#include "coda/problem.h"
#include "core/check.h"
#include "cpu/fast/fast.h"
#include "cpu/reference.h"
#include "support/matrices.h"

namespace coda::testing_support {

struct ProblemOptions {
  std::int64_t rows = 0, cols = 0, depth = 0;
  DType dtype = DType::F32;  ///< of the factors, and of operands whose dtype is open
  bool integers = false;     ///< whole numbers, so that sums are exact
  bool large_sums = true;    ///< loaded partials are like sums of squares, so that a norm's row factor is near 1
  bool layouts = false;      ///< any layout for each tensor, not rows side by side alone
};

class RandomProblem {
 public:
  RandomProblem(const Program& program, const ProblemOptions& options, std::uint64_t seed)
      : program_(program), options_(options), random_(seed) {
    // With equal rows in B a line of the product is one number times a row of B, and with equal columns a head of it is
    // one number: where that is a sum that cancels, the norm of a head multiplies what fp32 lost of it.
    const bool norms_heads =
        std::ranges::any_of(program.nodes(), [](const Node& node) { return node.kind == NodeKind::SpanReduce; });
    const auto b_layouts = norms_heads ? kOutputLayouts : static_cast<int>(std::size(kLayouts));
    for (int i = 0; i < program.accumulators(); ++i)
      b_.push_back(input(options.depth, options.cols, options.dtype, b_layouts));
    if (!b_.empty()) a_ = input(options.rows, options.depth, options.dtype);
    for (int i = 0; i < static_cast<int>(program.operands().size()); ++i) add_operand(i);
  }

  /// Runs on fresh outputs and returns them, in the program's order. Fails when memory outside them is written.
  std::vector<Matrix> run(const Backend& backend) {
    std::vector<Matrix> outputs;
    Operands operands;
    std::mt19937_64 random(7);  // what Accumulate operands hold is the same for every run
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Operand& operand = program_.operand(static_cast<int>(i));
      if (operand.role != Role::Input) outputs.push_back(output(operand, inputs_[i], random));
      operands.push_back({operand.name, bound(operand, operand.role == Role::Input ? inputs_[i] : outputs.back())});
    }
    const Problem problem = bind(operands);
    if (const auto reason = backend.refuses(problem)) throw NotImplementedError(*reason);
    backend.plan(problem)->run(problem);
    for (const Matrix& matrix : outputs) expect_canaries(matrix);
    return outputs;
  }

  const TensorView& a() const { return a_.view; }
  std::vector<Matrix>& inputs() { return inputs_; }

 private:
  // A scalar is bound as one element.
  static TensorView bound(const Operand& operand, const Matrix& matrix) {
    if (operand.shape != Shape::Scalar) return matrix.view;
    return TensorView(matrix.view.data(), matrix.view.dtype(), {1});
  }

  Problem bind(const Operands& operands) const {
    const Segment segment{program_, operands};
    if (b_.empty()) return bind_elementwise("elementwise", options_.rows, options_.cols, segment);
    const Factor b = b_.size() == 2 ? pair(b_[0].view, b_[1].view) : Factor(b_[0].view);
    return coda::bind("gemm", a_.view, b, {&segment, 1});
  }

  Layout layout(int count) {
    return options_.layouts ? kLayouts[random_() % static_cast<std::size_t>(count)] : Layout::Padded;
  }

  // In one of the first `layouts` of kLayouts.
  Matrix input(std::int64_t rows, std::int64_t cols, DType dtype, int layouts = std::size(kLayouts)) {
    const Layout chosen = layout(layouts);
    return options_.integers ? random_integers(random_, rows, cols, dtype, chosen)
                             : random_normal(random_, rows, cols, dtype, chosen);
  }

  void add_operand(int number) {
    const Operand& operand = program_.operand(number);
    std::vector<std::int64_t> shape = operand_shape(operand, options_.rows, options_.cols);
    while (shape.size() < 2) shape.insert(operand.shape == Shape::Col ? shape.end() : shape.begin(), 1);
    for (std::int64_t& extent : shape) extent = extent < 0 ? 3 : extent;
    if (operand.role != Role::Input) {
      Matrix place;
      place.view = TensorView(nullptr, operand.dtype.value_or(operand.partials ? DType::F32 : options_.dtype), shape);
      layouts_.push_back(layout(kOutputLayouts));
      inputs_.push_back(place);
      return;
    }
    layouts_.push_back(Layout::Plain);
    if (is_index(number)) {
      const DType dtype = operand.dtype.value_or(DType::I64);
      const int last = static_cast<int>(std::max<std::int64_t>(options_.cols, 1)) - 1;
      inputs_.push_back(random_integers(random_, shape[0], shape[1], dtype, Layout::Padded, 0, last));
    } else {
      inputs_.push_back(
          input(shape[0], shape[1], operand.dtype.value_or(operand.partials ? DType::F32 : options_.dtype)));
      if (operand.partials) make_sums(inputs_.back().view);
    }
  }

  void make_sums(const TensorView& view) {
    std::uniform_int_distribution<int> sum(options_.large_sums ? 128 : -1, options_.large_sums ? 384 : 1);
    for (std::int64_t r = 0; r < view.shape(0); ++r)
      for (std::int64_t c = 0; c < view.shape(1); ++c) set(view, r, c, sum(random_));
  }

  bool is_index(int number) const {
    for (const Node& node : program_.nodes()) {
      if (node.kind != NodeKind::SelectCol) continue;
      const Node& index = program_.node(node.args[1]);
      if (index.kind == NodeKind::Load && index.index == number) return true;
    }
    return false;
  }

  Matrix output(const Operand& operand, const Matrix& place, std::mt19937_64& random) const {
    const auto index = static_cast<std::size_t>(&operand - program_.operands().data());
    const TensorView& view = place.view;
    if (operand.role == Role::Output) return make_output(view.shape(0), view.shape(1), view.dtype(), layouts_[index]);
    return random_integers(random, view.shape(0), view.shape(1), view.dtype(), layouts_[index]);
  }

  Program program_;
  ProblemOptions options_;
  std::mt19937_64 random_;
  Matrix a_;
  std::vector<Matrix> b_;
  std::vector<Matrix> inputs_;  ///< of outputs the shape and dtype alone
  std::vector<Layout> layouts_;
};

/// Distance of neighbouring numbers of a dtype, relative to the smaller.
inline double spacing_of(DType dtype) {
  switch (dtype) {
    case DType::BF16: return 0x1p-7;
    case DType::F16: return 0x1p-10;
    case DType::F32: return 0x1p-23;
    case DType::F64:
    case DType::I32:
    case DType::I64: return 0;
  }
  return 0;
}

/// Nothing, or the first entry that is not equal but for one rounding of the stored dtype and `error` of the largest
/// entry of its output.
inline std::string difference(const std::vector<Matrix>& got, const std::vector<Matrix>& expected, double error) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> values = values_of(got[i].view), truth = values_of(expected[i].view);
    double largest = 1;
    for (const double value : truth) largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
    for (std::size_t e = 0; e < truth.size(); ++e) {
      if (std::isnan(truth[e]) ? std::isnan(values[e]) : values[e] == truth[e]) continue;
      // Two values that differ a little may be rounded to either side.
      const double allowed = spacing_of(got[i].view.dtype()) * std::abs(truth[e]) + error * largest;
      if (error > 0 && std::abs(values[e] - truth[e]) <= allowed) continue;
      return concat("output ", i, " of shape ", shape_text(got[i].view.shape()), ", entry ", e, ": got ", values[e],
                    ", expected ", truth[e]);
    }
  }
  return {};
}

}  // namespace coda::testing_support
