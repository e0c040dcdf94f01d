// The blocks' backwards, as chains from a loss to everything it depends on, against differences of plain loops.
#include <gtest/gtest.h>

#include <map>
#include <numbers>
#include <set>

#include "blocks/partials.h"
#include "blocks/plain_gradients.h"
#include "coda/training.h"

namespace coda {
namespace {

using epilogues::NormWeight;
using testing_support::difference;
using testing_support::expect_gradient;
using testing_support::Plain;
using testing_support::plain;
using testing_support::PlainLoss;
using testing_support::PlainMath;
using testing_support::Plains;
using testing_support::random_plain;
using testing_support::root_mean_square;
using testing_support::weighed;

constexpr double kEps = 1e-5;
constexpr std::int64_t kWidth = 20, kMlp = 24, kOut = 9;

struct ChainCase {
  std::int64_t tokens = 7;
  NormWeight kind = NormWeight::Gamma;
  bool bias = false;
  SavedPolicy policy = SavedPolicy::Fast;
  std::string gate = "swiglu";
};

/// enter_norm, gated_mlp, residual_norm and norm_linear in a row; the loss weighs the last one's result.
class Chain {
 public:
  explicit Chain(const ChainCase& c) : case_(c) {
    std::cout << "seed " << seed_ << "\n";
    const auto add = [&](const char* name, std::int64_t rows, std::int64_t cols, double scale, double mean = 0) {
      plains_[name] = random_plain(random_, rows, cols, DType::F32, scale, mean);
      const bool is_vector = rows == 1 && std::string(name) != "x";
      tensors_[name] = is_vector ? plains_[name].vector(DType::F32) : plains_[name].tensor(DType::F32);
      gradients_[name] = is_vector ? Tensor::zeros({cols}, DType::F32) : Tensor::zeros({rows, cols}, DType::F32);
    };
    const double mean = c.kind == NormWeight::OnePlusGamma ? 0 : 1;
    for (const char* gamma : {"gamma0", "gamma1"}) add(gamma, 1, kWidth, 0.2, mean);
    for (const char* weight : {"gate", "up"}) add(weight, kMlp, kWidth, 0.3);
    for (const char* bias : {"gate_bias", "up_bias"}) add(bias, 1, kMlp, 0.3);
    add("x", c.tokens, kWidth, 1);
    add("down", kWidth, kMlp, 0.3);
    add("down_bias", 1, kWidth, 0.3);
    add("head", kOut, kWidth, 0.3);
    add("head_bias", 1, kOut, 0.3);
    weights_ = random_plain(random_, plains_["x"].rows, kOut, DType::F32);
  }

  double loss(const Plains& p) const {
    const PlainMath math;
    const Plain& x = p.at("x");
    const Plain normed = math.rms_norm(x, gamma(p, "gamma0"), kEps);
    Plain gate = math.linear(normed, p.at("gate"), bias(p, "gate_bias"));
    const Plain up = math.linear(normed, p.at("up"), bias(p, "up_bias"));
    Plain y = math.swiglu(gate, up);
    if (case_.gate == "glu")
      for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] = up.values[i] / (1 + std::exp(-gate.values[i]));
    const Plain middle = math.add(math.linear(y, p.at("down"), bias(p, "down_bias")), x);
    return weighed(math.linear(math.rms_norm(middle, gamma(p, "gamma1"), kEps), p.at("head"), bias(p, "head_bias")),
                   weights_);
  }

  void run() {
    const RmsNorm first = norm("gamma0"), second = norm("gamma1");
    const MlpWeights mlp{view("gate"), view("up"), bias_view("gate_bias"), bias_view("up_bias"), case_.gate};
    const NormedStream entered = enter_norm(view("x"), first);
    GatedMlp gated = gated_mlp_saved(entered, first, mlp);
    const NormedStream middle = residual_norm(gated.y, view("down"), view("x"), second, bias_view("down_bias"));
    const Tensor out = norm_linear(middle, second, view("head"), bias_view("head_bias"));
    const SavedStream start = saved_stream(entered, case_.policy), end = saved_stream(middle, case_.policy);
    if (case_.policy == SavedPolicy::Lean) gated.y = {};

    StreamGradient gradient = norm_linear_backward(weights_.tensor(DType::F32), out, end, second, view("head"),
                                                   bias_view("head_bias"), {into("head"), into_bias("head_bias")});
    const Tensor d_middle = stream_backward(gradient, end, second, {into_gamma("gamma1"), into_bias("down_bias")}).d_x;
    GatedMlpBackward back =
        gated_mlp_backward(d_middle, view("down"), gated, start, first, mlp,
                           {into("gate"), into("up"), into_bias("gate_bias"), into_bias("up_bias")});
    add_weight_gradient(d_middle, back.y, into("down"));
    back.stream.d_x = d_middle;
    gradients_["x"] = stream_backward(back.stream, start, first, {into_gamma("gamma0"), {}}).d_x;
  }

  void expect_right() {
    run();
    for (const auto& [name, gradient] : gradients_) {
      if (name.ends_with("_bias") && !case_.bias) continue;
      if (name.starts_with("gamma") && case_.kind == NormWeight::None) continue;
      expect_gradient(gradient, name, plains_, [&](const Plains& p) { return loss(p); }, random_);
    }
  }

  std::map<std::string, Tensor>& gradients() { return gradients_; }
  std::set<std::string> frozen;
  MainGradient::Content content = MainGradient::Content::Kept;

 private:
  TensorView view(const std::string& name) { return tensors_.at(name); }
  RmsNorm norm(const std::string& name) { return {view(name), kEps, case_.kind}; }
  std::optional<TensorView> bias_view(const std::string& name) {
    return case_.bias ? std::optional(view(name)) : std::nullopt;
  }
  MainGradient into(const std::string& name) {
    return frozen.contains(name) ? std::nullopt : MainGradient(gradients_.at(name).view(), content);
  }
  MainGradient into_bias(const std::string& name) { return case_.bias ? into(name) : std::nullopt; }
  MainGradient into_gamma(const std::string& name) {
    return case_.kind == NormWeight::None ? std::nullopt : into(name);
  }
  std::optional<Plain> bias(const Plains& p, const std::string& name) const {
    return case_.bias ? std::optional(p.at(name)) : std::nullopt;
  }
  Plain gamma(const Plains& p, const std::string& name) const {
    Plain gamma = p.at(name);
    for (double& value : gamma.values)
      value = case_.kind == NormWeight::None ? 1 : value + (case_.kind == NormWeight::OnePlusGamma ? 1 : 0);
    return gamma;
  }

  ChainCase case_;
  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  Plains plains_;
  std::map<std::string, Tensor> tensors_, gradients_;
  Plain weights_;
};

TEST(BlockBackward, Chain) {
  for (const ChainCase& c : {ChainCase{}, ChainCase{.tokens = 0}, ChainCase{.tokens = 70}, ChainCase{.bias = true},
                             ChainCase{.kind = NormWeight::OnePlusGamma}, ChainCase{.kind = NormWeight::None},
                             ChainCase{.bias = true, .policy = SavedPolicy::Lean, .gate = "glu"}})
    Chain(c).expect_right();
}

// What is there already is added to.
TEST(BlockBackward, GradientsAccumulate) {
  Chain chain({.tokens = 70, .bias = true});
  chain.run();
  Plains once;
  for (const auto& [name, gradient] : chain.gradients()) once[name] = plain(gradient);
  chain.run();
  for (auto& [name, gradient] : chain.gradients()) {
    if (name == "x") continue;
    Plain& expected = once.at(name);
    for (double& value : expected.values) value *= 2;
    EXPECT_EQ(plain(gradient).values, expected.values) << name;
  }
}

// What is there is gone where the gradient is fresh, NaN too.
TEST(BlockBackward, FreshGradientsTakeThePlaceOfWhatWasThere) {
  for (const std::int64_t tokens : {0, 7, 4200}) {
    Chain chain({.tokens = tokens, .bias = true});
    chain.run();
    Plains expected;
    for (auto& [name, gradient] : chain.gradients()) {
      expected[name] = plain(gradient);
      std::fill_n(gradient.data<float>(), gradient.view().size(), std::numeric_limits<float>::quiet_NaN());
    }
    chain.content = MainGradient::Content::Fresh;
    chain.run();
    for (const auto& [name, gradient] : chain.gradients()) EXPECT_EQ(plain(gradient).values, expected.at(name).values);
  }
}

// What is frozen stays as it is and changes nothing else; nor does a second run.
TEST(BlockBackward, FrozenParametersAreLeftAlone) {
  Chain chain({.tokens = 70, .bias = true});
  const auto run = [&] {
    for (auto& [name, gradient] : chain.gradients())
      if (name != "x") std::fill_n(gradient.data<float>(), gradient.view().size(), 0.0f);
    chain.run();
    Plains result;
    for (const auto& [name, gradient] : chain.gradients()) result[name] = plain(gradient);
    return result;
  };
  const Plains all = run();
  for (const std::set<std::string>& frozen :
       {std::set<std::string>{}, {"gate", "down", "gamma0", "up_bias"}, {"up", "head", "gamma1", "down_bias"}}) {
    chain.frozen = frozen;
    for (const auto& [name, values] : run()) {
      if (frozen.contains(name))
        EXPECT_EQ(root_mean_square(values), 0) << name;
      else
        EXPECT_EQ(values.values, all.at(name).values) << name;
    }
  }
}

// However many partials there are: more than one load finishes, and more than one pass leaves few enough of.
TEST(BlockBackward, PartialsOfAnyNumberAreSummed) {
  std::mt19937_64 random(1);
  std::vector<Plain> partials;
  std::vector<Tensor> tensors, results;
  std::vector<ColSum> sums;
  for (const std::int64_t count : {1, 64, 65, 4200, 0}) {
    partials.push_back(random_plain(random, count, 5 + count % 7, DType::F32));
    tensors.push_back(partials.back().tensor(DType::F32));
    results.push_back(Tensor::zeros({partials.back().cols}, DType::F32));
    sums.push_back({tensors.back(), results.back()});
  }
  add_col_sums(sums, {});
  for (std::size_t i = 0; i < sums.size(); ++i)
    for (std::int64_t c = 0; c < partials[i].cols; ++c) {
      double sum = 0;
      for (std::int64_t r = 0; r < partials[i].rows; ++r) sum += partials[i].at(r, c);
      EXPECT_NEAR(plain(results[i]).values[static_cast<std::size_t>(c)], sum, 1e-4);
    }
  for (const std::int64_t width : {30, 130, 4200}) {
    const Tensor x = random_plain(random, 3, width, DType::F32).tensor(DType::F32);
    RmsNorm none;
    none.kind = NormWeight::None;
    const NormedStream stream = enter_norm(x, none);
    const Plain all = plain(saved_stream(stream).sum_sq), one = plain(saved_stream(stream, SavedPolicy::Lean).sum_sq);
    ASSERT_EQ(one.cols, 1);
    for (std::int64_t r = 0; r < 3; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < all.cols; ++c) sum += all.at(r, c);
      EXPECT_NEAR(one.at(r, 0), sum, 1e-6 * sum);
    }
  }
}

/// Sums of a stream one behind the other, each with the projection that reads it, which gives its gradient little.
class Sums {
 public:
  Sums(std::mt19937_64& random, NormWeight kind, DType dtype) : kind_(kind) {
    gamma_ = random_plain(random, 1, kWidth, dtype, 0.2, 1);
    x_ = random_plain(random, kTokens, kWidth, dtype);
    d_x_ = random_plain(random, kTokens, kWidth, dtype);
    weight_ = random_plain(random, kOut, kWidth, dtype, 0.3);
    for (Plain& d_out : d_outs_) d_out = random_plain(random, kTokens, kOut, dtype, 0.03);
  }

  struct Result {
    StreamBackward first, last;
    Tensor d_gamma = Tensor::zeros({kWidth}, DType::F32), d_bias = Tensor::zeros({kWidth}, DType::F32);
  };
  Result run(DType dtype, StreamGradientDType stream_gradient) const {
    const Tensor gamma = gamma_.vector(dtype), weight = weight_.tensor(dtype);
    const RmsNorm norm{gamma, kEps, kind_};
    const NormedStream stream = enter_norm(x_.tensor(dtype), norm);
    const SavedStream saved = saved_stream(stream);
    const Tensor out = norm_linear(stream, norm, weight);
    Result result;
    StreamParameterGradients into{{}, result.d_bias.view()};
    if (kind_ != NormWeight::None) into.norm_weight = result.d_gamma.view();
    Tensor d_x = d_x_.tensor(dtype);
    for (const Plain& d_out : d_outs_) {
      StreamGradient gradient = norm_linear_backward(d_out.tensor(dtype), out, saved, norm, weight);
      gradient.d_x = d_x;
      result.last = stream_backward(gradient, saved, norm, into, stream_gradient);
      d_x = result.last.residual;
      if (&d_out == d_outs_) result.first = result.last;
    }
    return result;
  }

 private:
  static constexpr std::int64_t kTokens = 70;
  NormWeight kind_;
  Plain gamma_, x_, d_x_, weight_, d_outs_[24];
};

// What goes along in f32 is what is rounded for the products, and the roundings of the sums do not add up.
TEST(BlockBackward, F32StreamGradientIsRoundedForProductsOnly) {
  const std::uint32_t seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::mt19937_64 random(seed);
  for (const DType dtype : {DType::BF16, DType::F16})
    for (const NormWeight kind : {NormWeight::Gamma, NormWeight::OnePlusGamma, NormWeight::None}) {
      const Sums sums(random, kind, dtype);
      const auto narrow = sums.run(dtype, StreamGradientDType::Stream),
                 wide = sums.run(dtype, StreamGradientDType::F32);
      EXPECT_EQ(plain(wide.first.d_x).values, plain(narrow.first.d_x).values);
      EXPECT_EQ(narrow.last.residual.view().data(), narrow.last.d_x.view().data());
      EXPECT_EQ(wide.last.residual.view().dtype(), DType::F32);
      const Plain residual = plain(wide.last.residual);
      EXPECT_EQ(plain(residual.tensor(dtype)).values, plain(wide.last.d_x).values);
      const Plain exact = plain(sums.run(DType::F32, StreamGradientDType::Stream).last.d_x);
      EXPECT_LE(4 * root_mean_square(difference(residual, exact)),
                root_mean_square(difference(plain(narrow.last.d_x), exact)));
    }
}

TEST(BlockBackward, F32StreamHasOneGradient) {
  std::mt19937_64 random(1);
  const Sums sums(random, NormWeight::Gamma, DType::F32);
  const auto stream = sums.run(DType::F32, StreamGradientDType::Stream),
             f32 = sums.run(DType::F32, StreamGradientDType::F32);
  EXPECT_EQ(f32.last.residual.view().data(), f32.last.d_x.view().data());
  EXPECT_EQ(plain(f32.last.d_x).values, plain(stream.last.d_x).values);
  EXPECT_EQ(plain(f32.d_gamma).values, plain(stream.d_gamma).values);
  EXPECT_EQ(plain(f32.d_bias).values, plain(stream.d_bias).values);
}

}  // namespace
}  // namespace coda
