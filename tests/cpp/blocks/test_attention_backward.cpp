// The backwards of attention and of the projections before it, against differences of plain loops.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "blocks/attention/kernels.h"
#include "blocks/plain_gradients.h"
#include "coda/gemm.h"
#include "coda/training.h"

namespace coda {
namespace {

using epilogues::NormWeight;
using epilogues::Rope;
using testing_support::expect_close;
using testing_support::expect_gradient;
using testing_support::expect_twice_stock;
using testing_support::Plain;
using testing_support::plain;
using testing_support::PlainMath;
using testing_support::Plains;
using testing_support::random_plain;
using testing_support::weighed;

constexpr double kEps = 1e-5;

/// `sequences` sequences, each seen by itself.
Plain attended(const Plain& q, const Plain& k, const Plain& v, const AttentionShape& shape) {
  const std::int64_t tokens = q.rows / shape.sequences;
  const auto part = [&](const Plain& x, std::int64_t i) {
    Plain result(tokens, x.cols);
    std::copy_n(x.values.begin() + i * tokens * x.cols, tokens * x.cols, result.values.begin());
    return result;
  };
  Plain all(0, q.cols);
  for (std::int64_t i = 0; i < shape.sequences; ++i) {
    const Plain one =
        PlainMath{}.attention(part(q, i), part(k, i), part(v, i), shape.heads, shape.kv_heads, shape.scale);
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
    all.rows += tokens;
  }
  return all;
}

struct AttentionSizes {
  std::int64_t tokens, head;
  AttentionShape shape;
};

class AttentionBackward : public ::testing::Test {
 protected:
  void SetUp() override { std::cout << "seed " << seed_ << "\n"; }

  Plains inputs(const AttentionSizes& s, DType dtype) {
    const std::int64_t rows = s.tokens * s.shape.sequences;
    return {{"q", random_plain(random_, rows, s.shape.heads * s.head, dtype)},
            {"k", random_plain(random_, rows, s.shape.kv_heads * s.head, dtype)},
            {"v", random_plain(random_, rows, s.shape.kv_heads * s.head, dtype)},
            {"d_out", random_plain(random_, rows, s.shape.heads * s.head, dtype)}};
  }
  static std::map<std::string, Tensor> run(const Plains& p, const AttentionShape& shape, DType dtype) {
    const auto tensor = [&](const char* name) { return p.at(name).tensor(dtype); };
    const Tensor q = tensor("q"), k = tensor("k"), v = tensor("v");
    const SavedAttention saved = causal_attention_saved(q, k, v, shape);
    const Qkv d = causal_attention_backward(tensor("d_out"), q, k, v, saved, shape);
    return {{"out", saved.out}, {"q", d.q}, {"k", d.k}, {"v", d.v}};
  }

  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

const AttentionSizes kSizes[] = {{2, 8, {2, 1}},          {7, 16, {4, 2}},      {5, 20, {4, 4, 3}},
                                 {65, 8, {2, 1, 1, 0.7}}, {130, 24, {3, 1, 2}}, {64, 64, {2, 2}}};

TEST_F(AttentionBackward, IsTheDerivative) {
  for (const AttentionSizes& s : kSizes) {
    SCOPED_TRACE(::testing::Message() << s.tokens << " tokens, heads " << s.shape.heads << "/" << s.shape.kv_heads);
    const Plains p = inputs(s, DType::F32);
    const auto got = run(p, s.shape, DType::F32);
    expect_close(got.at("out"), attended(p.at("q"), p.at("k"), p.at("v"), s.shape), 2e-6);
    for (const char* of : {"q", "k", "v"})
      expect_gradient(
          got.at(of), of, p,
          [&](const Plains& c) { return weighed(attended(c.at("q"), c.at("k"), c.at("v"), s.shape), c.at("d_out")); },
          random_, 15);
  }
}

/// Gradients by q, k and v as a stock model makes them, with every matrix stored in the dtype of `math`.
Plains plain_gradients(const Plains& p, const AttentionShape& shape, const PlainMath& math) {
  const Plain &q = p.at("q"), &k = p.at("k"), &v = p.at("v"), &d_out = p.at("d_out");
  const std::int64_t head = q.cols / shape.heads, length = q.rows / shape.sequences;
  const double scale = shape.scale == 0 ? 1 / std::sqrt(static_cast<double>(head)) : shape.scale;
  Plains d{{"q", Plain(q.rows, q.cols)}, {"k", Plain(k.rows, k.cols)}, {"v", Plain(v.rows, v.cols)}};
  for (std::int64_t h = 0; h < shape.heads; ++h)
    for (std::int64_t t = 0; t < q.rows; ++t) {
      const std::int64_t kv = h / (shape.heads / shape.kv_heads) * head, col = h * head, first = t / length * length;
      const auto seen = static_cast<std::size_t>(t - first + 1);
      std::vector<double> weights(seen), d_weights(seen);
      double largest = -INFINITY, sum = 0, mean = 0;
      const auto dot = [&](const Plain& a, const Plain& b, std::size_t s) {
        double result = 0;
        for (std::int64_t i = 0; i < head; ++i)
          result += a.at(t, col + i) * b.at(first + static_cast<std::int64_t>(s), kv + i);
        return result;
      };
      for (std::size_t s = 0; s < seen; ++s) {
        weights[s] = round_to(math.dtype, dot(q, k, s) * scale);
        largest = std::max(largest, weights[s]);
        d_weights[s] = round_to(math.dtype, dot(d_out, v, s));
      }
      for (double& weight : weights) sum += weight = std::exp(weight - largest);
      for (std::size_t s = 0; s < seen; ++s) {
        weights[s] = round_to(math.dtype, weights[s] / sum);
        mean += weights[s] * d_weights[s];
      }
      for (std::size_t s = 0; s < seen; ++s) {
        const double d_score = round_to(math.dtype, weights[s] * (d_weights[s] - mean)) * scale;
        const std::int64_t key = first + static_cast<std::int64_t>(s);
        for (std::int64_t i = 0; i < head; ++i) {
          d["q"].at(t, col + i) += d_score * k.at(key, kv + i);
          d["k"].at(key, kv + i) += d_score * q.at(t, col + i);
          d["v"].at(key, kv + i) += weights[s] * d_out.at(t, col + i);
        }
      }
    }
  for (auto& [of, gradient] : d) gradient = math.stored(gradient);
  return d;
}

TEST_F(AttentionBackward, HalvesAreNoWorseThanStock) {
  for (const DType dtype : {DType::BF16, DType::F16})
    for (const AttentionSizes& s : kSizes) {
      if (s.tokens < 5) continue;  // too few numbers to compare errors of
      SCOPED_TRACE(::testing::Message() << s.tokens << " tokens, " << name_of(dtype));
      const Plains p = inputs(s, dtype);
      const auto got = run(p, s.shape, dtype);
      const Plains truth = plain_gradients(p, s.shape, PlainMath{}),
                   stock = plain_gradients(p, s.shape, PlainMath{dtype});
      for (const char* of : {"q", "k", "v"}) expect_twice_stock(got.at(of), truth.at(of), stock.at(of));
    }
}

// A token that sees itself alone weighs it with 1 whatever q and k are.
TEST_F(AttentionBackward, OfOneTokenAndOfNone) {
  const AttentionSizes one{1, 8, {2, 1}}, none{0, 8, {2, 1}};
  const Plains p = inputs(one, DType::F32);
  const auto got = run(p, one.shape, DType::F32);
  for (const char* of : {"q", "k"})
    for (const double value : plain(got.at(of)).values) EXPECT_NEAR(value, 0, 1e-6);
  for (std::int64_t c = 0; c < 8; ++c)
    EXPECT_NEAR(got.at("v").view().at(0, c), p.at("d_out").at(0, c) + p.at("d_out").at(0, c + 8), 1e-6);
  EXPECT_EQ(run(inputs(none, DType::F32), none.shape, DType::F32).at("q").view().size(), 0);
}

// A NaN or infinity of a token reaches no query before it by its key and value, and no key behind it by its query and
// gradient: a weight of 0 is no product with it.
TEST_F(AttentionBackward, WhatIsNotFiniteStaysWithWhoSeesIt) {
  constexpr std::int64_t kAt = 93, kTokens = 200;
  const AttentionSizes s{kTokens, 8, {2, 1}};
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const Plains p = inputs(s, dtype);
    const auto before = run(p, s.shape, dtype);
    const auto expect_same = [&](const Tensor& got, const Tensor& expected, std::int64_t start, std::int64_t stop) {
      const Tensor part = Tensor::copy(got.view().slice(0, start, stop), dtype);
      expect_close(part, plain(expected.view().slice(0, start, stop)), dtype == DType::F32 ? 2e-6 : 1e-2);
    };
    for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
      for (const std::string of : {"q", "k", "v", "d_out"}) {
        SCOPED_TRACE(testing::Message() << of << " " << bad << " " << name_of(dtype));
        Plains changed = p;
        changed.at(of).at(kAt, 3) = bad;
        const auto got = run(changed, s.shape, dtype);
        const bool is_key = of == "k" || of == "v";
        if (is_key) expect_same(got.at("q"), before.at("q"), 0, kAt);
        if (!is_key)
          for (const char* gradient : {"k", "v"}) expect_same(got.at(gradient), before.at(gradient), kAt + 1, kTokens);
        EXPECT_FALSE(std::isfinite(got.at(is_key ? "q" : "k").view().at(kAt, 3)));
      }
  }
}

// The same loops compiled for each instruction set.
TEST_F(AttentionBackward, EveryInstructionSet) {
  constexpr std::int64_t kRows = 5, kCols = 27, kPitch = 32;
  constexpr float kScale = 0.5f;
  const Plain scores = random_plain(random_, kRows, kPitch, DType::F32),
              grads = random_plain(random_, kRows, kPitch, DType::F32);
  const std::vector<float> lse{1, 2, 3, 4, 5}, mean{0.5f, 0, -1, 2, 1};
  for (const attention::Kernels* set :
       {attention::portable_kernels(), attention::avx2_kernels(), attention::avx512_kernels()}) {
    if (set == nullptr) continue;
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      const Tensor s = scores.tensor(DType::F32), g = grads.tensor(DType::F32);
      const Tensor p = Tensor::zeros({kRows, kPitch}, dtype), d = Tensor::zeros({kRows, kPitch}, dtype);
      attention::GradientBlock block{s.data<float>(), g.data<float>(), kPitch, kRows, kCols, 3, 10, kScale};
      block.lse = lse.data();
      block.mean = mean.data();
      block.dtype = dtype;
      block.probabilities = p.view().data();
      block.d_scores = d.view().data();
      set->gradient(block);
      std::vector<float> dots(kRows);
      const Tensor typed = scores.tensor(dtype);
      set->row_dots(dtype, typed.view().data(), kPitch, typed.view().data(), kPitch, kRows, kCols, dots.data());
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto row = static_cast<std::size_t>(r);
        double dot = 0;
        for (std::int64_t j = 0; j < kPitch; ++j) {
          const bool is_seen = j < std::min(3 + 10 * r, kCols);
          const double weight = is_seen ? std::exp(scores.at(r, j) * kScale - static_cast<double>(lse[row])) : 0;
          EXPECT_NEAR(p.view().at(r, j), weight, (dtype == DType::F32 ? 1e-6 : 4e-3) * (1 + weight));
          const double expected = weight * (grads.at(r, j) - static_cast<double>(mean[row])) * kScale;
          EXPECT_NEAR(d.view().at(r, j), expected, (dtype == DType::F32 ? 1e-6 : 4e-3) * (1 + std::abs(expected)));
          if (j < kCols) dot += typed.view().at(r, j) * typed.view().at(r, j);
        }
        EXPECT_NEAR(static_cast<double>(dots[row]), dot, 1e-5 * dot);
      }
    }
  }
}

TEST_F(AttentionBackward, DoesNotDependOnThreads) {
  const AttentionSizes sizes{200, 16, {6, 2, 2}};
  const Plains p = inputs(sizes, DType::BF16);
  const auto expected = run(p, sizes.shape, DType::BF16);
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (const auto& [of, gradient] : run(p, sizes.shape, DType::BF16))
      EXPECT_EQ(plain(gradient).values, plain(expected.at(of)).values) << of;
  }
  set_num_threads(0);
}

TEST_F(AttentionBackward, TakesAnyStrides) {
  const AttentionSizes s{9, 8, {2, 1}};
  const Plains p = inputs(s, DType::F32);
  const Tensor q = p.at("q").tensor(DType::F32), k = p.at("k").tensor(DType::F32), v = p.at("v").tensor(DType::F32);
  const SavedAttention saved = causal_attention_saved(q, k, v, s.shape);
  Plain turned(p.at("d_out").cols, p.at("d_out").rows);
  for (std::int64_t r = 0; r < turned.rows; ++r)
    for (std::int64_t c = 0; c < turned.cols; ++c) turned.at(r, c) = p.at("d_out").at(c, r);
  const Tensor kept = turned.tensor(DType::F32);
  const Qkv d = causal_attention_backward(kept.view().transposed(), q, k, v, saved, s.shape);
  EXPECT_EQ(plain(d.k).values, plain(run(p, s.shape, DType::F32).at("k")).values);
}

struct QkvCase {
  Rope rope{};
  bool bias = false;
  std::optional<NormWeight> head_norm{};
  std::int64_t tokens = 7;
};

/// The projections of a norm, their norms and rotation.
class Projections {
 public:
  explicit Projections(const QkvCase& c) : case_(c) {
    std::cout << "seed " << seed_ << "\n";
    const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t cols, double scale, double mean = 0) {
      plains_[name] = random_plain(random_, rows, cols, DType::F32, scale, mean);
      tensors_[name] = rows == 1 ? plains_[name].vector(DType::F32) : plains_[name].tensor(DType::F32);
      gradients_[name] = rows == 1 ? Tensor::zeros({cols}, DType::F32) : Tensor::zeros({rows, cols}, DType::F32);
    };
    add("x", c.tokens, kWidth, 1);
    add("gamma", 1, kWidth, 0.2, 1);
    for (const char* name : {"q", "k", "v"}) {
      const std::int64_t cols = c.rope.head * (name[0] == 'q' ? 4 : 2);
      add(name, cols, kWidth, 0.3);
      add(std::string(name) + "_bias", 1, cols, 0.3);
      if (name[0] != 'v') add(std::string(name) + "_norm", 1, c.rope.head, 0.2, 1);
      weights_[name] = random_plain(random_, c.tokens, cols, DType::F32);
    }
    const std::int64_t pairs = width() / 2;
    cos_ = Plain(c.tokens, pairs);
    sin_ = Plain(c.tokens, pairs);
    for (std::int64_t t = 0; t < c.tokens; ++t)
      for (std::int64_t p = 0; p < pairs; ++p) {
        cos_.at(t, p) = round_to(DType::F32, std::cos(static_cast<double>(t) / static_cast<double>(1 + p)));
        sin_.at(t, p) = round_to(DType::F32, std::sin(static_cast<double>(t) / static_cast<double>(1 + p)));
      }
  }

  void expect_right() {
    const Tensor cos = cos_.tensor(DType::F32), sin = sin_.tensor(DType::F32);
    const RopeTensors angles{{}, {}, cos, sin};
    const RmsNorm norm{view("gamma"), kEps};
    QkvWeights weights{view("q"), view("k"), view("v"), {}, {}, {}, {}, {}};
    QkvGradients into;
    into.q = gradients_["q"];
    into.k = gradients_["k"];
    into.v = gradients_["v"];
    if (case_.bias) {
      weights.q_bias = view("q_bias");
      weights.k_bias = view("k_bias");
      weights.v_bias = view("v_bias");
      into.q_bias = gradients_["q_bias"];
      into.k_bias = gradients_["k_bias"];
      into.v_bias = gradients_["v_bias"];
    }
    if (case_.head_norm) {
      weights.q_norm = RmsNorm{view("q_norm"), kEps, *case_.head_norm};
      weights.k_norm = RmsNorm{view("k_norm"), kEps, *case_.head_norm};
      into.q_norm = gradients_["q_norm"];
      into.k_norm = gradients_["k_norm"];
    }
    const NormedStream stream = enter_norm(view("x"), norm);
    const SavedStream start = saved_stream(stream);
    const SavedQkv saved = qkv_rope_saved(stream, norm, weights, case_.rope, angles);
    const Qkv d{weights_["q"].tensor(DType::F32), weights_["k"].tensor(DType::F32), weights_["v"].tensor(DType::F32)};
    const StreamGradient gradient =
        qkv_rope_backward(d.q, d.k, d.v, saved, start, norm, weights, case_.rope, angles, into);
    gradients_["x"] = stream_backward(gradient, start, norm, {gradients_["gamma"].view(), {}}).d_x;
    for (const auto& [name, got] : gradients_) {
      if (name.ends_with("_bias") && !case_.bias) continue;
      if (name.ends_with("_norm") && !case_.head_norm) continue;
      expect_gradient(got, name, plains_, [&](const Plains& p) { return loss(p); }, random_);
    }
  }

 private:
  static constexpr std::int64_t kWidth = 20;
  std::int64_t width() const { return case_.rope.width == 0 ? case_.rope.head : case_.rope.width; }
  TensorView view(const std::string& name) { return tensors_.at(name); }

  Plain rotated(const Plain& x) const {
    Plain result = x;
    const std::int64_t half = width() / 2;
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t start = 0; start < x.cols; start += case_.rope.head)
        for (std::int64_t p = 0; p < half; ++p) {
          const std::int64_t a = start + (case_.rope.interleaved ? 2 * p : p);
          const std::int64_t b = start + (case_.rope.interleaved ? 2 * p + 1 : p + half);
          const double cosine = cos_.at(r, p) * case_.rope.scale, sine = sin_.at(r, p) * case_.rope.scale;
          result.at(r, a) = x.at(r, a) * cosine - x.at(r, b) * sine;
          result.at(r, b) = x.at(r, b) * cosine + x.at(r, a) * sine;
        }
    return result;
  }

  double loss(const Plains& p) const {
    const PlainMath math;
    const Plain normed = math.rms_norm(p.at("x"), p.at("gamma"), kEps);
    double sum = 0;
    for (const std::string name : {"q", "k", "v"}) {
      Plain z = math.linear(normed, p.at(name), case_.bias ? std::optional(p.at(name + "_bias")) : std::nullopt);
      if (case_.head_norm && name != "v") {
        Plain heads(z.rows * z.cols / case_.rope.head, case_.rope.head), gamma = p.at(name + "_norm");
        for (double& value : gamma.values) value += *case_.head_norm == NormWeight::OnePlusGamma ? 1 : 0;
        heads.values = z.values;
        z.values = math.rms_norm(heads, gamma, kEps).values;
      }
      sum += weighed(name == "v" ? z : rotated(z), weights_.at(name));
    }
    return sum;
  }

  QkvCase case_;
  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  Plains plains_, weights_;
  Plain cos_, sin_;
  std::map<std::string, Tensor> tensors_, gradients_;
};

Rope table(std::int64_t head, std::int64_t width = 0, bool interleaved = false, double scale = 1) {
  return {.head = head, .width = width, .interleaved = interleaved, .angles = Rope::Angles::Table, .scale = scale};
}

TEST(QkvBackward, IsTheDerivative) {
  for (const QkvCase& c :
       {QkvCase{table(8)}, QkvCase{.rope = table(8), .tokens = 70}, QkvCase{table(8), true}, QkvCase{table(12, 8)},
        QkvCase{table(80)}, QkvCase{table(80, 32), true}, QkvCase{table(8, 4, true, 1.25), true},
        QkvCase{table(8, 4, true, 1.25)}, QkvCase{table(8, 0, false, 1.25)},
        QkvCase{table(8), false, NormWeight::Gamma}, QkvCase{table(8), true, NormWeight::OnePlusGamma},
        QkvCase{table(128, 64), false, NormWeight::Gamma}}) {
    SCOPED_TRACE(::testing::Message() << "head " << c.rope.head << " width " << c.rope.width << " bias " << c.bias);
    Projections(c).expect_right();
  }
}

}  // namespace
}  // namespace coda
