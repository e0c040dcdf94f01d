#include "autodiff/gradcheck.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "coda/gemm.h"
#include "problem/reducer.h"
#include "support/differences.h"

namespace coda::testing_support {
namespace {

constexpr int kEntries = 3;  // compared of each gradient

std::string acc_key(int index) { return "acc(" + std::to_string(index) + ")"; }

// The tensor that "acc0" or an input of `wrt` names.
std::string key_of(const Program& program, const std::string& name) {
  const bool is_acc = name == "acc0" || name == "acc1";
  const int operand = program.find_operand(name);
  if (!is_acc || (operand >= 0 && program.operand(operand).role == Role::Input)) return name;
  return acc_key(name.back() - '0');
}

bool holds_integers(const Operand& operand) {
  return operand.name == "targets" || (operand.dtype && is_integer(*operand.dtype));
}

Tensor identity_matrix(std::int64_t rows) {
  const Tensor result = Tensor::zeros({rows, rows}, DType::F64);
  for (std::int64_t i = 0; i < rows; ++i) entry(result, i * rows + i) = 1;
  return result;
}

// The loss differences are taken of: Σ over the outputs of cotangent · output.
class Loss {
 public:
  Loss(const Program& forward, Tensors inputs, Tensors cotangents, Extent extent)
      : forward_(forward), inputs_(std::move(inputs)), cotangents_(std::move(cotangents)), extent_(extent) {}

  /// As a function of a shift of one entry of one input.
  RealFunction by_entry(const std::string& name, std::int64_t at) {
    return [this, key = key_of(forward_, name), at](const std::vector<double>& shift) {
      double& value = entry(inputs_.at(key), at);
      const double before = value;
      value += shift[0];
      const double result = loss();
      value = before;
      return result;
    };
  }

 private:
  double loss() const {
    const Tensors outputs = run_program(forward_, inputs_, extent_);
    double sum = 0;
    for (const auto& [name, cotangent] : cotangents_) {
      const Operand& operand = forward_.operand(forward_.find_operand(name));
      sum += inner_product(cotangent, finished(operand, outputs.at(name)));
    }
    return sum;
  }

  const Program& forward_;
  Tensors inputs_, cotangents_;
  Extent extent_;
};

void compare_entries(Verdict& verdict, Loss& loss, const std::string& name, const Tensor& gradient,
                     std::mt19937_64& random) {
  for (int i = 0; i < kEntries; ++i) {
    const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size_of(gradient)));
    const auto expected = difference(loss.by_entry(name, at), {0}, 0);
    if (!expected) {
      ++verdict.kinks;
      continue;
    }
    ++verdict.compared;
    const double got = entry(gradient, at);
    if (std::abs(got - *expected) <= 2e-6 * (1 + std::abs(*expected))) continue;
    std::ostringstream text;
    text << "gradient by entry " << at << " of '" << name << "' is " << got << ", differences give " << *expected;
    verdict.wrong = text.str();
  }
}

}  // namespace

std::int64_t size_of(const Tensor& tensor) { return tensor.view().size(); }

Tensors draw_inputs(const Program& program, Extent extent, std::mt19937_64& random, const Domain& domain) {
  Tensors tensors;
  const auto draw = [&](const std::string& name, const std::vector<std::int64_t>& shape, Interval from) {
    if (domain) from = domain(name);
    const Tensor tensor = Tensor::empty(shape, DType::F64);
    for (std::int64_t i = 0; i < size_of(tensor); ++i)
      entry(tensor, i) = std::uniform_real_distribution(from.low, from.high)(random);
    tensors[name] = tensor;
  };
  for (int i = 0; i < program.accumulators(); ++i) draw(acc_key(i), {extent.rows, extent.cols}, {-2, 2});
  for (const Operand& operand : program.operands()) {
    if (operand.role != Role::Input) continue;
    std::vector<std::int64_t> shape = operand_shape(operand, extent.rows, extent.cols);
    for (std::int64_t& size : shape) size = size < 0 ? 1 : size;
    if (holds_integers(operand)) {
      const Tensor tensor = Tensor::empty(shape, DType::I32);
      for (std::int64_t i = 0; i < size_of(tensor); ++i)
        tensor.data<std::int32_t>()[i] = static_cast<std::int32_t>(random() % static_cast<unsigned>(extent.cols));
      tensors[operand.name] = tensor;
    } else {
      draw(operand.name, shape, operand.partials ? Interval{0.25, 1} : Interval{-2, 2});
    }
  }
  return tensors;
}

Tensor draw_normal(const Tensor& like, std::mt19937_64& random) {
  const Tensor tensor = Tensor::empty(like.view().shape(), DType::F64);
  std::normal_distribution<double> number;
  for (std::int64_t i = 0; i < size_of(tensor); ++i) entry(tensor, i) = number(random);
  return tensor;
}

Tensors run_program(const Program& program, const Tensors& inputs, Extent extent) {
  Operands operands;
  Tensors outputs;
  for (const Operand& operand : program.operands()) {
    if (operand.role == Role::Input) {
      operands.push_back({operand.name, inputs.at(operand.name)});
      continue;
    }
    const std::vector<std::int64_t> shape = operand_shape(operand, extent.rows, extent.cols);
    const Tensor tensor = Tensor::empty(shape, DType::F64);
    std::fill_n(tensor.data<double>(), size_of(tensor), operand.role == Role::Output ? std::nan("") : 0.0);
    outputs[operand.name] = tensor;
    operands.push_back({operand.name, tensor});
  }
  if (program.accumulators() == 0) {
    elementwise(extent.rows, extent.cols, program, operands, "reference");
    return outputs;
  }
  Factor b(inputs.at(acc_key(0)));
  if (program.accumulators() == 2) b = pair(inputs.at(acc_key(0)), inputs.at(acc_key(1)));
  gemm(identity_matrix(extent.rows), b, program, operands, "reference");
  return outputs;
}

Tensor finished(const Operand& operand, const Tensor& stored) {
  if (!operand.partials) return stored;
  const std::int64_t lines = stored.view().shape(operand.partials->axis == Axis::Row ? 0 : 1);
  const Tensor result = Tensor::empty({lines}, DType::F64);
  for (std::int64_t i = 0; i < lines; ++i) entry(result, i) = finish(stored, *operand.partials, i);
  return result;
}

Tensor finished(const Gradient& gradient, const Program& backward, const Tensors& tensors, Extent extent) {
  Tensor result;
  if (gradient.finish) {
    result = run_program(*gradient.finish, tensors, extent).begin()->second;
  } else {
    result = finished(backward.operand(backward.find_operand(gradient.output)), tensors.at(gradient.output));
  }
  const std::int64_t period = gradient.sum_rows ? 1 : gradient.period;
  if (period == 0) return result;
  const Tensor folded = Tensor::zeros({period}, DType::F64);
  for (std::int64_t i = 0; i < size_of(result); ++i) entry(folded, i % period) += entry(result, i);
  return folded;
}

double inner_product(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(size_of(a), size_of(b));
  double sum = 0;
  for (std::int64_t i = 0; i < size_of(a); ++i) sum += entry(a, i) * entry(b, i);
  return sum;
}

Verdict check_gradients(const Program& rounding, const std::vector<std::string>& wrt,
                        const std::vector<Cotangent>& cotangents, const DifferentiateOptions& options, Extent extent,
                        std::uint64_t seed, const Domain& domain) {
  std::mt19937_64 random(seed);
  const Program forward = in_double(rounding);
  const Backward backward = differentiate(forward, wrt, cotangents, options);
  const Tensors inputs = draw_inputs(forward, extent, random, domain);
  Tensors tensors = inputs, weights;
  for (const auto& [name, output] : run_program(forward, inputs, extent)) tensors[name] = output;
  for (const Cotangent& cotangent : cotangents) {
    if (cotangent.source == Cotangent::Source::None) continue;
    const Operand& output = forward.operand(forward.find_operand(cotangent.output));
    const Tensor weight = draw_normal(finished(output, tensors.at(output.name)), random);
    weights[output.name] = weight;
    tensors[cotangent.source == Cotangent::Source::Acc ? acc_key(0) : cotangent.operand] = weight;
  }
  for (const auto& [name, output] : run_program(backward.program, tensors, extent)) tensors[name] = output;
  Loss loss(forward, inputs, weights, extent);
  Verdict verdict;
  for (const Gradient& gradient : backward.gradients)
    compare_entries(verdict, loss, gradient.of, finished(gradient, backward.program, tensors, extent), random);
  if (!verdict.wrong.empty())
    verdict.wrong += "; seed " + std::to_string(seed) + "\n" + to_text(forward) + to_text(backward.program);
  return verdict;
}

Verdict check_flat(const Program& rounding, const std::vector<std::string>& of, Extent extent, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const Program forward = in_double(rounding);
  const Tensors inputs = draw_inputs(forward, extent, random);
  Tensors weights;
  for (const auto& [name, output] : run_program(forward, inputs, extent))
    weights[name] = draw_normal(finished(forward.operand(forward.find_operand(name)), output), random);
  Loss loss(forward, inputs, weights, extent);
  Verdict verdict;
  for (const std::string& name : of) {
    Tensor zeros = draw_normal(inputs.at(key_of(forward, name)), random);
    std::fill_n(zeros.data<double>(), size_of(zeros), 0.0);
    compare_entries(verdict, loss, name, zeros, random);
  }
  if (!verdict.wrong.empty()) verdict.wrong += "; seed " + std::to_string(seed) + "\n" + to_text(forward);
  return verdict;
}

Program in_double(const Program& program) {
  Program::Data data = program.data();
  for (Operand& operand : data.operands)
    if (operand.dtype && !is_integer(*operand.dtype)) operand.dtype.reset();
  for (Node& node : data.nodes)
    if (node.kind == NodeKind::Round) node.dtype = DType::F64;
  return Program(std::move(data));
}

std::vector<std::string> everything(const Program& program) {
  std::vector<std::string> names;
  for (int i = 0; i < program.accumulators(); ++i) names.push_back("acc" + std::to_string(i));
  for (const Operand& operand : program.operands())
    if (operand.role == Role::Input && !holds_integers(operand)) names.push_back(operand.name);
  return names;
}

std::vector<Cotangent> loads(const Program& program) {
  std::vector<Cotangent> cotangents;
  for (const Operand& operand : program.operands())
    if (operand.role != Role::Input) cotangents.push_back(Cotangent::load(operand.name));
  return cotangents;
}

}  // namespace coda::testing_support
