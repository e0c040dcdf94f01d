// What the library's programs compute, in the reference backend, against formulas written out here in double.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "coda/epilogues.h"
#include "coda/problem.h"
#include "cpu/reference.h"

namespace coda::epilogues {
namespace {

constexpr std::int64_t kRows = 5, kDepth = 7;
constexpr double kTolerance = 1e-12;  // relative to 1: everything is double

struct Matrix {
  std::int64_t rows, cols;
  std::vector<double> data;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), data(static_cast<std::size_t>(r * c)) {}
  double& operator()(std::int64_t i, std::int64_t j) { return data[static_cast<std::size_t>(i * cols + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const { return data[static_cast<std::size_t>(i * cols + j)]; }
};

template <class Fn>
Matrix fill(std::int64_t rows, std::int64_t cols, Fn&& fn) {
  Matrix matrix(rows, cols);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) matrix(i, j) = fn(i, j);
  return matrix;
}

void expect_equal(const Matrix& got, const Matrix& expected) {
  ASSERT_EQ(got.rows, expected.rows);
  ASSERT_EQ(got.cols, expected.cols);
  for (std::int64_t i = 0; i < got.rows; ++i)
    for (std::int64_t j = 0; j < got.cols; ++j)
      ASSERT_NEAR(got(i, j), expected(i, j), kTolerance * (1 + std::abs(expected(i, j)))) << "at " << i << ", " << j;
}

// One product and a program, on fresh random inputs.
class LibraryValues : public ::testing::Test {
 protected:
  LibraryValues() : seed_(std::random_device{}()), random_(seed_) { RecordProperty("seed", std::to_string(seed_)); }
  void TearDown() override {
    if (HasFailure()) std::cout << "seed " << seed_ << '\n';
  }

  Matrix random(std::int64_t rows, std::int64_t cols) {
    std::normal_distribution<double> normal;
    return fill(rows, cols, [&](auto, auto) { return normal(random_); });
  }

  // A random input operand; rank 1 when rows is 0.
  Matrix input(const std::string& name, std::int64_t rows, std::int64_t cols) {
    Matrix values = random(std::max<std::int64_t>(rows, 1), cols);
    bind(name, rows, values, DType::F64);
    return values;
  }
  void bind(const std::string& name, std::int64_t rows, const Matrix& values, DType dtype) {
    operands_.push_back({name, rows == 0 ? Tensor::from({values.cols}, values.data, dtype)
                                         : Tensor::from({rows, values.cols}, values.data, dtype)});
  }
  Matrix positive_partials(const std::string& name) {
    Matrix values = random(kRows, 3);
    for (double& entry : values.data) entry = entry * entry + 0.1;
    bind(name, kRows, values, DType::F64);
    return values;
  }

  // Runs the program over kRows × cols. acc0 and acc1 are then the accumulators.
  void run(const Program& program, std::int64_t cols, DType out_dtype = DType::F64) {
    const Matrix a = random(kRows, kDepth), b0 = random(kDepth, cols), b1 = random(kDepth, cols);
    const auto product = [&](const Matrix& b) {
      return fill(kRows, cols, [&](auto i, auto j) {
        double sum = 0;
        for (std::int64_t k = 0; k < kDepth; ++k) sum += a(i, k) * b(k, j);
        return sum;
      });
    };
    acc0_ = product(b0);
    acc1_ = product(b1);
    Operands bound;
    for (const auto& [name, tensor] : operands_) bound.push_back({name, tensor});
    for (const Operand& operand : program.operands()) {
      if (operand.role == Role::Input) continue;
      const DType dtype = operand.dtype.value_or(operand.partials ? DType::F64 : out_dtype);
      outputs_[operand.name] = Tensor::empty(operand_shape(operand, kRows, cols), dtype);
      bound.push_back({operand.name, outputs_[operand.name]});
    }
    const Segment segment{program, bound};
    const Tensor a_tensor = Tensor::from({kRows, kDepth}, a.data, DType::F64);
    const Tensor first = Tensor::from({kDepth, cols}, b0.data, DType::F64);
    const Tensor second = Tensor::from({kDepth, cols}, b1.data, DType::F64);
    const Factor factor = program.accumulators() == 2 ? pair(first, second) : Factor(first);
    const Problem problem = program.accumulators() == 0 ? bind_elementwise("test", kRows, cols, segment)
                                                        : coda::bind("test", a_tensor, factor, {&segment, 1});
    cpu::reference_backend().plan(problem)->run(problem);
  }

  Matrix output(const std::string& name) const {
    const TensorView& tensor = outputs_.at(name).view();
    const std::int64_t cols = tensor.rank() == 2 ? tensor.shape(1) : 1;
    return fill(tensor.shape(0), cols,
                [&](auto i, auto j) { return load_element(tensor.dtype(), tensor.data(), i * cols + j); });
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<std::pair<std::string, Tensor>> operands_;
  std::map<std::string, Tensor> outputs_;
  Matrix acc0_{0, 0}, acc1_{0, 0};
};

constexpr DelayedRms kNorm{.count = 150, .eps = 0.01};
constexpr std::int64_t kCols = 150;  // two whole partials of 64 and a ragged one

std::vector<double> row_factors(const Matrix& sum_sq) {
  std::vector<double> factors;
  for (std::int64_t i = 0; i < sum_sq.rows; ++i)
    factors.push_back(1 / std::sqrt((sum_sq(i, 0) + sum_sq(i, 1) + sum_sq(i, 2)) / 150 + 0.01));
  return factors;
}

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

TEST_F(LibraryValues, Plain) {
  const Matrix bias_row = input("bias", 0, kCols);
  run(bias("gelu"), kCols);
  expect_equal(output("out"), fill(kRows, kCols, [&](auto i, auto j) {
                 const double z = acc0_(i, j) + bias_row(0, j);
                 return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
               }));
}

TEST_F(LibraryValues, IdentityAndSigmoid) {
  run(identity(), kCols);
  expect_equal(output("out"), acc0_);
  run(sigmoid(), kCols);
  expect_equal(output("out"), fill(kRows, kCols, [&](auto i, auto j) { return sigma(acc0_(i, j)); }));
}

TEST_F(LibraryValues, Scale) {
  const Matrix alpha = input("alpha", 0, 1);
  run(scale(), kCols);
  expect_equal(output("out"), fill(kRows, kCols, [&](auto i, auto j) { return acc0_(i, j) * alpha(0, 0); }));
}

TEST_F(LibraryValues, Residual) {
  const Matrix residual_tile = input("residual", kRows, kCols);
  run(residual(), kCols);
  expect_equal(output("out"), fill(kRows, kCols, [&](auto i, auto j) { return acc0_(i, j) + residual_tile(i, j); }));
}

Matrix partial_squares(const Matrix& x, std::int64_t width) {
  Matrix sums(x.rows, (x.cols + width - 1) / width);
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) sums(i, j / width) += x(i, j) * x(i, j);
  return sums;
}

TEST_F(LibraryValues, ResidualRmsOfEveryWeight) {
  const Matrix residual_tile = input("residual", kRows, kCols), bias_row = input("bias", 0, kCols);
  const auto x = [&](auto i, auto j) { return acc0_(i, j) + bias_row(0, j) + residual_tile(i, j); };
  run(residual_rms({.weight = NormWeight::None, .bias = true}), kCols);
  expect_equal(output("x"), fill(kRows, kCols, x));
  expect_equal(output("sum_sq"), partial_squares(fill(kRows, kCols, x), 64));
  const Matrix gamma = input("gamma", 0, kCols);
  for (const NormWeight weight : {NormWeight::Gamma, NormWeight::OnePlusGamma}) {
    run(residual_rms({.weight = weight, .partial_width = 128, .bias = true}), kCols);
    const double offset = weight == NormWeight::Gamma ? 0 : 1;
    expect_equal(output("h"), fill(kRows, kCols, [&](auto i, auto j) { return x(i, j) * (offset + gamma(0, j)); }));
    expect_equal(output("sum_sq"), partial_squares(fill(kRows, kCols, x), 128));
  }
}

// h and sum_sq come from x before it is rounded, and h is rounded once.
TEST_F(LibraryValues, ResidualRmsRoundsOnlyWhatItStores) {
  const Matrix residual_tile = input("residual", kRows, kCols), gamma = input("gamma", 0, kCols);
  run(residual_rms(), kCols, DType::BF16);
  const Matrix x = fill(kRows, kCols, [&](auto i, auto j) { return acc0_(i, j) + residual_tile(i, j); });
  expect_equal(output("x"), fill(kRows, kCols, [&](auto i, auto j) { return round_to(DType::BF16, x(i, j)); }));
  expect_equal(output("h"),
               fill(kRows, kCols, [&](auto i, auto j) { return round_to(DType::BF16, x(i, j) * gamma(0, j)); }));
  expect_equal(output("sum_sq"), partial_squares(x, 64));
}

TEST_F(LibraryValues, RmsEntry) {
  const Matrix x = input("x", kRows, kCols), gamma = input("gamma", 0, kCols);
  run(rms_entry(), kCols);
  expect_equal(output("h"), fill(kRows, kCols, [&](auto i, auto j) { return x(i, j) * gamma(0, j); }));
  expect_equal(output("sum_sq"), partial_squares(x, 64));
}

TEST_F(LibraryValues, Rms) {
  const std::vector<double> r = row_factors(positive_partials("sum_sq"));
  run(rms({kNorm}), kCols);
  expect_equal(output("out"), fill(kRows, kCols, [&](auto i, auto j) { return acc0_(i, j) * r[std::size_t(i)]; }));
  const Matrix bias_row = input("bias", 0, kCols);
  run(rms({kNorm, true}), kCols);
  expect_equal(output("out"),
               fill(kRows, kCols, [&](auto i, auto j) { return acc0_(i, j) * r[std::size_t(i)] + bias_row(0, j); }));
}

TEST_F(LibraryValues, GatedStoresItsInputs) {
  const std::vector<double> r = row_factors(positive_partials("sum_sq"));
  const Matrix gate_bias = input("gate_bias", 0, kCols), up_bias = input("up_bias", 0, kCols);
  const auto gate = [&](auto i, auto j) { return acc0_(i, j) * r[std::size_t(i)] + gate_bias(0, j); };
  const auto up = [&](auto i, auto j) { return acc1_(i, j) * r[std::size_t(i)] + up_bias(0, j); };
  run(rms_gated({kNorm, {.bias = true, .save_inputs = true}}), kCols);
  expect_equal(output("gate"), fill(kRows, kCols, gate));
  expect_equal(output("up"), fill(kRows, kCols, up));
  expect_equal(output("out"),
               fill(kRows, kCols, [&](auto i, auto j) { return gate(i, j) * sigma(gate(i, j)) * up(i, j); }));
  run(rms_gated({kNorm, {.clamped = ClampedSwiglu{.alpha = 1.5, .beta = 0.5, .limit = 1}, .bias = true}}), kCols);
  expect_equal(output("out"), fill(kRows, kCols, [&](auto i, auto j) {
                 const double g = std::min(gate(i, j), 1.0), u = std::clamp(up(i, j), -1.0, 1.0);
                 return g * sigma(1.5 * g) * (u + 0.5);
               }));
}

TEST_F(LibraryValues, GatedWithoutNorm) {
  run(gated({.gate = "reglu"}), kCols);
  expect_equal(output("out"),
               fill(kRows, kCols, [&](auto i, auto j) { return std::max(acc0_(i, j), 0.0) * acc1_(i, j); }));
}

// z rotated: cos_sin(row, pair) gives {cos, sin}, scale included.
template <class CosSin>
Matrix rotate(const Matrix& z, const Rope& rope, CosSin&& cos_sin) {
  Matrix out = z;
  const std::int64_t width = rope.width == 0 ? rope.head : rope.width;
  for (std::int64_t i = 0; i < z.rows; ++i) {
    for (std::int64_t head = 0; head < z.cols; head += rope.head) {
      for (std::int64_t p = 0; p < width / 2; ++p) {
        const std::int64_t c = head + (rope.interleaved ? 2 * p : p), d = rope.interleaved ? c + 1 : c + width / 2;
        const auto [cos, sin] = cos_sin(i, p);
        out(i, c) = z(i, c) * cos - z(i, d) * sin;
        out(i, d) = z(i, d) * cos + z(i, c) * sin;
      }
    }
  }
  return out;
}

auto base_angles(const Matrix& positions, const Rope& rope) {
  const auto width = static_cast<double>(rope.width == 0 ? rope.head : rope.width);
  return [=](std::int64_t i, std::int64_t p) {
    const double angle = positions(0, i) * std::pow(rope.base, -2 * static_cast<double>(p) / width);
    return std::pair(rope.scale * std::cos(angle), rope.scale * std::sin(angle));
  };
}

TEST_F(LibraryValues, RopeOfEveryLayout) {
  const Matrix positions = fill(1, kRows, [](auto, auto j) { return static_cast<double>(j * 37 + 1); });
  bind("positions", 0, positions, DType::I32);
  for (const bool interleaved : {false, true}) {
    for (const auto& [head, width] : {std::pair(64, 0), {64, 20}, {80, 80}, {6, 4}, {5, 2}}) {
      const Rope options{.head = head, .width = width, .interleaved = interleaved, .base = 500, .scale = 1.25};
      SCOPED_TRACE(testing::Message() << head << ' ' << width << ' ' << interleaved);
      run(rope({options}), 3 * head);
      expect_equal(output("out"), rotate(acc0_, options, base_angles(positions, options)));
    }
  }
}

TEST_F(LibraryValues, RopeOfFrequenciesAndOfTables) {
  const Matrix positions = random(1, kRows);
  bind("positions", 0, positions, DType::F64);
  const Matrix frequencies = input("frequencies", 0, 16);
  const Rope by_frequency{.head = 40, .width = 32, .angles = Rope::Angles::Frequency};
  run(rope({by_frequency}), 80);
  expect_equal(output("out"), rotate(acc0_, by_frequency, [&](auto i, auto p) {
                 const double angle = positions(0, i) * frequencies(0, p);
                 return std::pair(std::cos(angle), std::sin(angle));
               }));
  operands_.clear();
  const Matrix cos = input("cos", kRows, 16), sin = input("sin", kRows, 16);
  const Rope by_table{.head = 40, .width = 32, .interleaved = true, .angles = Rope::Angles::Table, .scale = 0.5};
  run(rope({by_table}), 80);
  expect_equal(output("out"),
               rotate(acc0_, by_table, [&](auto i, auto p) { return std::pair(0.5 * cos(i, p), 0.5 * sin(i, p)); }));
}

TEST_F(LibraryValues, RmsRope) {
  const std::vector<double> r = row_factors(positive_partials("sum_sq"));
  const Matrix bias_row = input("bias", 0, 128);
  const Matrix positions = fill(1, kRows, [](auto, auto j) { return static_cast<double>(100 - j); });
  bind("positions", 0, positions, DType::I64);
  const Rope options{.head = 64};
  run(rms_rope({kNorm, options, true}), 128);
  const Matrix z = fill(kRows, 128, [&](auto i, auto j) { return acc0_(i, j) * r[std::size_t(i)] + bias_row(0, j); });
  expect_equal(output("out"), rotate(z, options, base_angles(positions, options)));
}

TEST_F(LibraryValues, QkNormRope) {
  const std::vector<double> r = row_factors(positive_partials("sum_sq"));
  const Matrix bias_row = input("bias", 0, 120), gamma = input("gamma", 0, 40);
  const Matrix positions = fill(1, kRows, [](auto, auto j) { return static_cast<double>(j); });
  bind("positions", 0, positions, DType::I32);
  const Rope options{.head = 40, .width = 24};
  run(qk_norm_rope({.norm = kNorm,
                    .rope = options,
                    .weight = NormWeight::OnePlusGamma,
                    .eps = 0.125,
                    .bias = true,
                    .save_inputs = true}),
      120);
  const Matrix z = fill(kRows, 120, [&](auto i, auto j) { return acc0_(i, j) * r[std::size_t(i)] + bias_row(0, j); });
  expect_equal(output("z"), z);
  const Matrix normed = fill(kRows, 120, [&](auto i, auto j) {
    double squares = 0;
    for (std::int64_t c = j / 40 * 40; c < j / 40 * 40 + 40; ++c) squares += z(i, c) * z(i, c);
    return z(i, j) / std::sqrt(squares / 40 + 0.125) * (1 + gamma(0, j % 40));
  });
  expect_equal(output("out"), rotate(normed, options, base_angles(positions, options)));
}

TEST_F(LibraryValues, LogSumExpAndTargets) {
  const std::vector<double> r = row_factors(positive_partials("sum_sq"));
  bind("targets", 0, fill(1, kRows, [](auto, auto j) { return j == 2 ? -100.0 : 37.0 * static_cast<double>(j); }),
       DType::I64);
  run(rms_lse({kNorm, {.store_logits = true}}), kCols);
  const Matrix z = fill(kRows, kCols, [&](auto i, auto j) { return acc0_(i, j) * r[std::size_t(i)]; });
  expect_equal(output("logits"), z);
  expect_equal(output("lse"), fill(kRows, 3, [&](auto i, auto block) {
                 double sum = 0;
                 for (std::int64_t j = block * 64; j < std::min<std::int64_t>(block * 64 + 64, kCols); ++j)
                   sum += std::exp(z(i, j));
                 return std::log(sum);
               }));
  expect_equal(output("target"), fill(kRows, 1, [&](auto i, auto) {
                 return i == 2 ? 0.0 : static_cast<double>(static_cast<float>(z(i, 37 * i)));
               }));
}

}  // namespace
}  // namespace coda::epilogues
