// Programs in sequence, each differentiated by itself: what one backward leaves to the other adds up. Linear maps.
#include <gtest/gtest.h>

#include "autodiff/gradcheck.h"
#include "coda/build.h"
#include "coda/epilogues.h"
#include "coda/gemm.h"
#include "support/differences.h"

namespace coda {
namespace {

using namespace testing_support;

constexpr std::int64_t kRows = 3, kWidth = 192, kCols = 64;
constexpr epilogues::DelayedRms kNorm{.count = kWidth, .eps = 1e-3};

Tensor matrix(std::int64_t rows, std::int64_t cols, std::mt19937_64& random) {
  return draw_normal(Tensor::zeros({rows, cols}, DType::F64), random);
}

// x = a + residual; out = the second program of the product (x·γ)·W with r of the partials of x².
class NormChain {
 public:
  NormChain(Program second, std::mt19937_64& random) : second_(std::move(second)) {
    first_inputs_ = draw_inputs(first_, {kRows, kWidth}, random);
    second_inputs_ = draw_inputs(second_, {kRows, kCols}, random);
    for (int i = 0; i < second_.accumulators(); ++i) weights_.push_back(matrix(kWidth, kCols, random));
    forward();
    d_out_ = draw_normal(outputs_.at("out"), random);
    d_x_ = draw_normal(outputs_.at("x"), random);
  }

  /// Gradients by the inputs of the first program and, as "weight", by the first weight.
  Tensors backward() {
    std::vector<std::string> wrt{"acc0", "sum_sq"};
    if (second_.accumulators() == 2) wrt.insert(wrt.begin() + 1, "acc1");
    std::vector<Cotangent> cotangents{Cotangent::load("out")};
    for (const Operand& operand : second_.operands())
      if (operand.role != Role::Input && operand.name != "out") cotangents.push_back(Cotangent::none(operand.name));
    const Backward second = differentiate(second_, wrt, cotangents);
    const Backward first = differentiate(
        first_, {"acc0", "residual", "gamma"},
        {Cotangent::load("x"), Cotangent::acc("h"), Cotangent::computed("sum_sq", *second.gradients.back().finish)});
    Tensors tensors = second_inputs_;
    for (const auto& [name, tensor] : outputs_) tensors[name] = tensor;
    tensors["d_out"] = d_out_;
    for (const auto& [name, tensor] : run_program(second.program, tensors, {kRows, kCols})) tensors[name] = tensor;
    tensors["gamma"] = first_inputs_.at("gamma");
    tensors["d_x"] = d_x_;
    // dh = d_acc0·W0ᵀ (+ d_acc1·W1ᵀ), whose product is the accumulator of the first backward.
    std::vector<TensorView> left, right;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      left.push_back(tensors.at(i == 0 ? "d_acc0" : "d_acc1").view());
      right.push_back(weights_[i].view().transposed());
    }
    Tensors result = run(first.program, concat_k(left), concat_k(right), tensors, {kRows, kWidth});
    Tensors gradients;
    for (const Gradient& gradient : first.gradients)
      gradients[gradient.of] = finished(gradient, first.program, result, {kRows, kWidth});
    gradients["weight"] = run(epilogues::identity(), outputs_.at("h").view().transposed(), tensors.at("d_acc0"), {},
                              {kWidth, kCols})["out"];
    return gradients;
  }

  RealFunction by_entry(const std::string& of, std::int64_t at) {
    const Tensor& tensor = of == "weight" ? weights_[0] : first_inputs_.at(of == "acc0" ? "acc(0)" : of);
    return [this, tensor, at](const std::vector<double>& shift) {
      const double before = entry(tensor, at);
      entry(tensor, at) += shift[0];
      forward();
      entry(tensor, at) = before;
      return inner_product(d_out_, outputs_.at("out")) + inner_product(d_x_, outputs_.at("x"));
    };
  }

 private:
  static Tensors run(const Program& program, const Factor& a, const Factor& b, const Tensors& inputs, Extent extent) {
    Operands operands;
    Tensors outputs;
    for (const Operand& operand : program.operands()) {
      if (operand.role != Role::Input)
        outputs[operand.name] = Tensor::empty(operand_shape(operand, extent.rows, extent.cols), DType::F64);
      operands.push_back(
          {operand.name, operand.role == Role::Input ? inputs.at(operand.name) : outputs.at(operand.name)});
    }
    gemm(a, b, program, operands, "reference");
    return outputs;
  }

  void forward() {
    outputs_ = run_program(first_, first_inputs_, {kRows, kWidth});
    Tensors inputs = second_inputs_;
    inputs["sum_sq"] = outputs_.at("sum_sq");
    const Factor b = weights_.size() == 2 ? pair(weights_[0], weights_[1]) : Factor(weights_[0]);
    for (const auto& [name, tensor] : run(second_, outputs_.at("h"), b, inputs, {kRows, kCols}))
      outputs_[name] = tensor;
  }

  Program first_ = epilogues::residual_rms();
  Program second_;
  Tensors first_inputs_, second_inputs_, outputs_;
  std::vector<Tensor> weights_;
  Tensor d_out_, d_x_;
};

TEST(Chains, OfANormAndTheProductBehindIt) {
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  for (const Program& second :
       {epilogues::rms({kNorm}), epilogues::rms({kNorm, true}), epilogues::rms_rope({kNorm, {.head = 64}}),
        epilogues::rms_gated({kNorm, {.save_inputs = true}}),
        epilogues::rms_gated({kNorm, {.gate = "geglu", .bias = true, .save_inputs = true}})}) {
    SCOPED_TRACE(testing::Message() << second.name() << " seed " << seed);
    NormChain chain(second, random);
    for (const auto& [of, gradient] : chain.backward())
      for (int i = 0; i < 6; ++i) {
        const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size_of(gradient)));
        const auto expected = difference(chain.by_entry(of, at), {0}, 0);
        ASSERT_TRUE(expected) << of;
        EXPECT_NEAR(entry(gradient, at), *expected, 2e-6 * (1 + std::abs(*expected))) << of << " entry " << at;
      }
  }
}

// ⟨J x, c⟩ = ⟨x, Jᵀ c⟩
TEST(Chains, ABackwardOfALinearMapIsItsTranspose) {
  using epilogues::Rope;
  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  std::vector<Program> maps{epilogues::identity(), epilogues::scale(), epilogues::rms({kNorm})};
  for (const auto& [name, program] : epilogues::library())
    if (name.starts_with("rope") && name != "rope_bias") maps.push_back(program);
  Builder b("sums");
  const Value z = b.acc(), w = b.load_row("w");
  b.store("out", span_sum(z * w, 8) * w - z * b.load_col("c"));
  maps.push_back(b.build());
  for (const Program& forward : maps) {
    SCOPED_TRACE(testing::Message() << to_text(forward) << " seed " << seed);
    const Extent extent{4, 2 * std::max<std::int64_t>(forward.column_granule(), 8)};
    Tensors inputs = draw_inputs(forward, extent, random);
    const Tensor out = run_program(forward, inputs, extent).at("out");
    inputs["d_out"] = draw_normal(out, random);
    const Backward backward = differentiate(forward, {"acc0"}, {Cotangent::load("out")});
    const Tensor transposed = run_program(backward.program, inputs, extent).at("d_acc0");
    const double expected = inner_product(out, inputs.at("d_out"));
    EXPECT_NEAR(inner_product(inputs.at("acc(0)"), transposed), expected, 1e-11 * (100 + std::abs(expected)));
  }
}

}  // namespace
}  // namespace coda
