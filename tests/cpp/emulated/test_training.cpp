// Training on the emulated GPU: the gradient by an embedding, sums down many rows, the projections of heads that fill
// no tile, and whole models, against the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "blocks/llama/embedding_gradient.h"
#include "blocks/partials.h"
#include "coda/differentiate.h"
#include "coda/training.h"
#include "emulated/emulated_gpu.h"
#include "emulated/model_kinds.h"

namespace coda::testing_support {
namespace {

constexpr Device kGpu{DeviceKind::Cuda, 0};

Tensor on_host(const TensorView& view) { return Tensor::copy_to(view, {}); }
Tensor there(const TensorView& view) { return Tensor::copy_to(view, kGpu); }
TensorView view_of(std::vector<std::int64_t>& numbers) {
  return {numbers.data(), DType::I64, {static_cast<std::int64_t>(numbers.size())}};
}

using Gradients = std::map<std::string, Plain>;

class EmulatedTraining : public EmulatedTest {
 protected:
  void SetUp() override { std::cout << "seed " << seed_ << "\n"; }

  // Twice the error of the CPU in the same dtype, and a rounding.
  static void expect_no_worse(const Gradients& gpu, const Gradients& cpu, const Gradients& exact) {
    for (const auto& [name, truth] : exact) {
      SCOPED_TRACE(name);
      const double ours = root_mean_square(difference(gpu.at(name), truth));
      const double theirs = root_mean_square(difference(cpu.at(name), truth));
      EXPECT_LE(ours, 2 * theirs + root_mean_square(truth) * 0x1p-9) << "the CPU's own error is " << theirs;
    }
  }

  std::uint32_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
};

TEST_F(EmulatedTraining, EmbeddingGradientHasTheCpusBits) {
  constexpr std::int64_t kVocabulary = 40, kWidth = 300;
  const auto numbers = [&](std::size_t count, std::uint64_t of) {
    std::vector<std::int64_t> drawn;
    for (std::size_t i = 0; i < count; ++i) drawn.push_back(static_cast<std::int64_t>(random_() % of));
    return drawn;
  };
  const std::pair<DType, DType> dtypes[] = {
      {DType::BF16, DType::BF16}, {DType::BF16, DType::F32}, {DType::F16, DType::F16}, {DType::F32, DType::BF16}};
  for (const auto& [dtype, main] : dtypes)
    for (const auto& tokens : {numbers(120, kVocabulary), numbers(3, kVocabulary), numbers(70, 1), numbers(0, 1)}) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " into " << name_of(main) << ", " << tokens.size());
      const auto rows = static_cast<std::int64_t>(tokens.size());
      const Tensor d_x = random_plain(random_, rows, kWidth, dtype).tensor(dtype);
      const Tensor into = random_plain(random_, kVocabulary, kWidth, main).tensor(main), on_gpu = there(into);
      add_embedding_gradient("test", d_x, tokens, into, {});
      add_embedding_gradient("test", there(d_x), tokens, on_gpu, {});
      EXPECT_EQ(plain(on_host(on_gpu)).values, plain(into).values);
    }
}

// Half a unit in the last place and a little: a float drops the little, and what is left is a tie.
TEST_F(EmulatedTraining, EmbeddingGradientIsRoundedOnce) {
  const std::pair<DType, float> halves[] = {{DType::BF16, 0x1p-8f}, {DType::F16, 0x1p-11f}};
  for (const auto& [dtype, half] : halves)
    for (const float sign : {1.f, -1.f})
      for (const float little : {0x1p-40f, -0x1p-40f}) {
        SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << sign << " and " << little);
        Tensor d_x = Tensor::zeros({2, 1}, DType::F32), into = Tensor::zeros({1, 1}, dtype);
        static_cast<float*>(d_x.view().data())[0] = sign * half;
        static_cast<float*>(d_x.view().data())[1] = little;
        store_element(dtype, into.view().data(), 0, sign);
        const Tensor on_gpu = there(into);
        add_embedding_gradient("test", there(d_x), std::vector<std::int64_t>{0, 0}, on_gpu, {});
        const double grown = little * sign > 0 ? 2 * half : 0;
        EXPECT_EQ(plain(on_host(on_gpu)).values[0], sign * (1 + grown));
      }
}

TEST_F(EmulatedTraining, EmbeddingGradientTakesAnyStrides) {
  std::vector<std::int64_t> tokens{3, 1, 3};
  const Tensor turned = random_plain(random_, 20, 3, DType::BF16).tensor(DType::BF16);
  const Tensor into = Tensor::zeros({20, 5}, DType::F32), on_gpu = there(into);
  add_embedding_gradient("test", turned.view().transposed(), tokens, into.view().transposed(), {});
  add_embedding_gradient("test", there(turned).view().transposed(), tokens, on_gpu.view().transposed(), {});
  EXPECT_EQ(plain(on_host(on_gpu)).values, plain(into).values);
}

// More partials than a load finishes, in passes: 64, 65 and 4100 of them.
TEST_F(EmulatedTraining, SumsDownManyRows) {
  for (const std::int64_t count : {1, 64, 65, 4100}) {
    const Plain partials = random_plain(random_, count, 40, DType::F32);
    Plain expected = random_plain(random_, 1, 40, DType::F32);
    const Tensor into = there(expected.vector(DType::F32));
    add_col_sums({{there(partials.tensor(DType::F32)), into}}, {});
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t c = 0; c < 40; ++c) expected.at(0, c) += partials.at(r, c);
    const Tensor got = on_host(into);
    for (std::int64_t c = 0; c < 40; ++c)
      EXPECT_NEAR(got.data<float>()[c], expected.at(0, c), 1e-5 * std::sqrt(static_cast<double>(count))) << count;
  }
}

// Only k has what no kernel does: the gradients of q are not begun either.
TEST_F(EmulatedTraining, WhatIsRefusedIsRefusedBeforeAGradientIsWritten) {
  constexpr std::int64_t kTokens = 3, kWidth = 8, kHead = 510;
  const auto zeros = [](std::initializer_list<std::int64_t> shape) { return there(Tensor::zeros(shape, DType::BF16)); };
  const Tensor weight = zeros({kHead, kWidth}), bias = zeros({kHead}), out = zeros({kTokens, kHead});
  const Tensor positions = there(Tensor::zeros({kTokens}, DType::F32));
  const Tensor d_bias = there(Tensor::zeros({kHead}, DType::F32));
  QkvWeights weights{weight, weight, weight, {}, {}, {}, {}, {}};
  weights.q_bias = weights.k_bias = weights.v_bias = bias;
  weights.k_norm = RmsNorm{bias};
  QkvGradients into;
  into.q_bias = d_bias;
  const SavedStream stream{zeros({kTokens, kWidth}), there(Tensor::zeros({kTokens, 1}, DType::F32))};
  const Tensor d_out = there(random_plain(random_, kTokens, kHead, DType::BF16).tensor(DType::BF16));
  EXPECT_THROW(qkv_rope_backward(d_out, d_out, d_out, {out, out, out, {}, out}, stream, RmsNorm{zeros({kWidth})},
                                 weights, {.head = kHead}, {positions.view(), {}, {}, {}}, into),
               NotImplementedError);
  for (const double value : plain(on_host(d_bias)).values) EXPECT_EQ(value, 0);
}

/// The projections before attention, two query heads and one of keys and values.
struct QkvCase {
  std::int64_t head;
  bool bias, head_norm;
};

class Projections {
 public:
  Projections(std::mt19937_64& random, const QkvCase& c) : case_(c) {
    const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t cols, double scale, double mean = 0) {
      plains_[name] = random_plain(random, rows, cols, DType::BF16, scale, mean);
    };
    add("x", kTokens, kWidth, 1);
    add("gamma", 1, kWidth, 0.2, 1);
    for (const std::string name : {"q", "k", "v"}) {
      const std::int64_t cols = c.head * (name == "q" ? 2 : 1);
      add(name, cols, kWidth, 0.2);
      add("d_" + name, kTokens, cols, 1);
      if (c.bias) add(name + "_bias", 1, cols, 0.3);
      if (c.head_norm && name != "v") add(name + "_norm", 1, c.head, 0.2, 1);
    }
  }

  Gradients gradients(DType dtype, Device device) const {
    std::map<std::string, Tensor> t, main;
    for (const auto& [name, p] : plains_) {
      t[name] = Tensor::copy_to(p.rows == 1 ? p.vector(dtype) : p.tensor(dtype), device);
      if (name == "x" || name.starts_with("d_")) continue;
      const Plain zeros(p.rows, p.cols);
      main[name] = Tensor::copy_to(p.rows == 1 ? zeros.vector(DType::F32) : zeros.tensor(DType::F32), device);
    }
    QkvWeights weights{t["q"], t["k"], t["v"], {}, {}, {}, {}, {}};
    QkvGradients into;
    into.q = main["q"], into.k = main["k"], into.v = main["v"];
    if (case_.bias) {
      weights.q_bias = t["q_bias"], weights.k_bias = t["k_bias"], weights.v_bias = t["v_bias"];
      into.q_bias = main["q_bias"], into.k_bias = main["k_bias"], into.v_bias = main["v_bias"];
    }
    if (case_.head_norm) {
      weights.q_norm = RmsNorm{t["q_norm"]}, weights.k_norm = RmsNorm{t["k_norm"]};
      into.q_norm = main["q_norm"], into.k_norm = main["k_norm"];
    }
    run(t, weights, main["gamma"], into);
    Gradients result;
    for (const auto& [name, tensor] : main) result[name] = plain(on_host(tensor));
    return result;
  }

 private:
  static constexpr std::int64_t kTokens = 70, kWidth = 32;

  void run(std::map<std::string, Tensor>& t, const QkvWeights& weights, const TensorView& d_gamma,
           const QkvGradients& into) const {
    const RmsNorm norm{t["gamma"]};
    const epilogues::Rope rope{.head = case_.head};
    std::vector<double> counted(kTokens);
    std::iota(counted.begin(), counted.end(), 0.);
    const Tensor positions = Tensor::copy_to(Tensor::from({kTokens}, counted, DType::I32), t["x"].view().device());
    const RopeTensors tensors{positions, {}, {}, {}};
    const NormedStream stream = enter_norm(t["x"], norm);
    const SavedStream start = saved_stream(stream, SavedPolicy::Lean);
    const SavedQkv saved = qkv_rope_saved(stream, norm, weights, rope, tensors);
    const StreamGradient gradient =
        qkv_rope_backward(t["d_q"], t["d_k"], t["d_v"], saved, start, norm, weights, rope, tensors, into);
    stream_backward(gradient, start, norm, {d_gamma, {}});
  }

  QkvCase case_;
  std::map<std::string, Plain> plains_;
};

// Sums of rows whose groups are wider than a tile, beside sums of 64 rows.
TEST_F(EmulatedTraining, ProjectionsOfWideAndOddHeads) {
  for (const QkvCase& c :
       {QkvCase{128, true, false}, QkvCase{128, false, true}, QkvCase{80, true, true}, QkvCase{24, true, false}}) {
    SCOPED_TRACE(testing::Message() << "heads of " << c.head << (c.bias ? ", biases" : "")
                                    << (c.head_norm ? ", norms" : ""));
    const Projections projections(random_, c);
    expect_no_worse(projections.gradients(DType::BF16, kGpu), projections.gradients(DType::BF16, {}),
                    projections.gradients(DType::F32, {}));
  }
}

/// A model, the tokens it is trained on, and the gradients it gives on a device.
class EmulatedGradients : public EmulatedTraining, public testing::WithParamInterface<PlainLlamaOptions> {
 protected:
  void draw(const PlainLlamaOptions& options, std::size_t count) {
    plain_ = random_llama(random_, options);
    for (std::size_t i = 0; i < count; ++i) {
      tokens_.push_back(static_cast<std::int64_t>(random_() % 53));
      targets_.push_back(i % 5 == 3 ? -100 : static_cast<std::int64_t>(random_() % 53));
    }
  }

  Gradients run(Device device, std::optional<DType> dtype, const TrainingOptions& options, DType main,
                double* loss = nullptr) {
    const LlamaModel model(plain_.config, plain_.operands(), dtype, false, device);
    std::map<std::string, Tensor> tensors;
    Operands into;
    for (const auto& [name, parameter] : model.parameters()) {
      const Tensor zeros = parameter.rank() == 1 ? Tensor::zeros({parameter.shape(0)}, main)
                                                 : Tensor::zeros({parameter.shape(0), parameter.shape(1)}, main);
      tensors[name] = Tensor::copy_to(zeros, device);
      into.push_back({name, tensors[name]});
    }
    const Loss got = model.loss_and_gradients(view_of(tokens_), view_of(targets_), into, options);
    if (loss != nullptr) *loss = got.value;
    Gradients gradients;
    for (const auto& [name, tensor] : tensors) gradients[name] = plain(on_host(tensor));
    return gradients;
  }

  void expect_no_worse_than_the_cpu(const TrainingOptions& options, DType main) {
    double exact_loss = 0, loss = 0;
    const Gradients exact = run({}, DType::F32, options, DType::F32, &exact_loss);
    const Gradients cpu = run({}, {}, options, main);
    const Gradients gpu = run(kGpu, {}, options, main, &loss), again = run(kGpu, {}, options, main);
    expect_no_worse(gpu, cpu, exact);
    for (const auto& [name, gradient] : gpu) EXPECT_EQ(gradient.values, again.at(name).values) << name;
    EXPECT_NEAR(loss, exact_loss, 0.02 * exact_loss);
  }

  PlainLlama plain_;
  std::vector<std::int64_t> tokens_, targets_;
};

TEST_P(EmulatedGradients, AreNoWorseThanTheCpus) {
  draw(GetParam(), 70);
  TrainingOptions options;
  options.layers.sequences = 2;
  expect_no_worse_than_the_cpu(options, DType::F32);
  options.layers.policy = SavedPolicy::Lean;
  options.layers.stream_gradient = StreamGradientDType::F32;
  options.head = {.factor = 0.5, .chunk_tokens = 64};
  expect_no_worse_than_the_cpu(options, DType::BF16);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EmulatedGradients, model_kinds(), kind_name);

// Four products and attention forward; eight products, one pass and attention's three kernels backward. The gradients
// by both γ are summed by a launch each.
TEST_F(EmulatedTraining, LaunchesOfALayer) {
  constexpr std::int64_t kTokens = 64, kWidth = 64, kHead = 16, kMlp = 96;
  const LayerConfig config{4, 2, kHead, {.head = kHead}, "swiglu"};
  const auto draw = [&](std::int64_t rows, std::int64_t cols) {
    return there(random_plain(random_, rows, cols, DType::BF16).tensor(DType::BF16));
  };
  const Tensor gamma = there(random_plain(random_, 1, kWidth, DType::BF16).vector(DType::BF16));
  const Tensor d_gamma[] = {there(Tensor::zeros({kWidth}, DType::F32)), there(Tensor::zeros({kWidth}, DType::F32))};
  const Tensor q = draw(4 * kHead, kWidth), kv = draw(2 * kHead, kWidth), o = draw(kWidth, 4 * kHead);
  const Tensor gate = draw(kMlp, kWidth), up = draw(kMlp, kWidth), down = draw(kWidth, kMlp);
  const Tensor positions = there(Tensor::zeros({kTokens}, DType::F32));
  LayerWeights weights;
  weights.input_norm = weights.post_norm = RmsNorm{gamma};
  weights.qkv.q = q, weights.qkv.k = weights.qkv.v = kv, weights.o = o;
  weights.gate = gate, weights.up = up, weights.down = down;
  const Tensor d_q = draw(4 * kHead, kWidth), d_k = draw(2 * kHead, kWidth), d_v = draw(2 * kHead, kWidth);
  const Tensor d_o = draw(kWidth, 4 * kHead), d_gate = draw(kMlp, kWidth), d_up = draw(kMlp, kWidth);
  const Tensor d_down = draw(kWidth, kMlp);
  LayerGradients into;
  into.qkv.q = d_q, into.qkv.k = d_k, into.qkv.v = d_v, into.o = d_o;
  into.mlp.gate = d_gate, into.mlp.up = d_up, into.down = d_down;
  into.post_norm = d_gamma[0], into.next_norm = d_gamma[1];
  const RopeTensors rope{positions.view(), {}, {}, {}};
  const NormedStream stream = enter_norm(draw(kTokens, kWidth), weights.input_norm);
  for (const SavedPolicy policy : {SavedPolicy::Fast, SavedPolicy::Lean}) {
    SavedLayer saved;
    LayerTraining training{1, policy};
    const int start = emulated_launches;
    const NormedStream out =
        transformer_layer_saved(stream, weights, config, rope, weights.input_norm, training, saved);
    const int forward = emulated_launches - start;
    EXPECT_EQ(forward, 4 + 1);
    StreamGradient gradient;
    gradient.dz = {draw(kTokens, 4 * kHead)};
    gradient.weights = {q};
    const Backward reader =
        differentiate(epilogues::rms({{.count = kWidth}}), {"acc0", "sum_sq"}, {Cotangent::load("out")});
    gradient.sums = {{there(Tensor::zeros({kTokens, 1}, DType::F32)), *reader.gradients[1].finish}};
    for (const auto dtype : {StreamGradientDType::Stream, StreamGradientDType::F32}) {
      training.stream_gradient = dtype;
      const int middle = emulated_launches;
      transformer_layer_backward(gradient, saved_stream(out), saved, weights, config, rope, weights.input_norm,
                                 training, into);
      EXPECT_EQ(emulated_launches - middle, 9 + 3 + 2);
    }
  }
}

}  // namespace
}  // namespace coda::testing_support
