// A program with random tensors, run on the emulated GPU and by the reference backend.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cpu/reference.h"
#include "cuda/backend.h"
#include "emulated/emulated_gpu.h"
#include "support/matrices.h"

namespace coda::testing_support {

inline constexpr Device kGpu{DeviceKind::Cuda, 0};
inline constexpr std::int64_t kDepth = 40, kPartials = 9;

inline TensorView on(const TensorView& view, Device device) {
  return {view.data(), view.dtype(), view.shape(), view.strides(), device};
}

// The SelectCol that takes its index from an operand, or null.
inline const Node* selection(const Program& program, int operand) {
  for (const Node& node : program.nodes())
    if (node.kind == NodeKind::SelectCol && program.node(node.args[1]).kind == NodeKind::Load &&
        program.node(node.args[1]).index == operand)
      return &node;
  return nullptr;
}

// A program with random tensors; outputs are made anew for each run.
class Case {
 public:
  // aligned: rows of tiles begin at multiples of 16 bytes, so that tiles travel staged where they can.
  Case(const Program& program, std::int64_t rows, std::int64_t cols, bool aligned, std::uint64_t seed)
      : program_(program), rows_(rows), cols_(cols), aligned_(aligned), random_(seed) {
    if (program.accumulators() > 0) a_ = normal({rows, kDepth}, DType::BF16);
    for (int i = 0; i < program.accumulators(); ++i) weights_.push_back(normal({cols, kDepth}, DType::BF16));
    for (int i = 0; i < static_cast<int>(program.operands().size()); ++i) inputs_.push_back(input(i));
  }

  // Instead of the random input.
  void give(const std::string& name, const Tensor& values) {
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i)
      if (program_.operand(i).name == name) inputs_[static_cast<std::size_t>(i)] = values;
  }

  std::vector<Matrix> run(const Backend& backend, Device device, const Schedule* schedule) {
    std::vector<Matrix> outputs;
    const Problem problem = bound(device, outputs);
    if (const auto refusal = backend.refuses(problem)) throw NotImplementedError(*refusal);
    backend.plan(problem, {.schedule = schedule})->run(problem);
    for (const Matrix& matrix : outputs) expect_canaries(matrix);
    return outputs;
  }

  /// The program with its tensors on a device, and fresh outputs.
  Segment segment(Device device, std::vector<Matrix>& outputs) {
    Operands operands;
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
      const Operand& operand = program_.operand(i);
      TensorView tensor = inputs_[static_cast<std::size_t>(i)];
      if (operand.role != Role::Input) {
        outputs.push_back(output(operand));
        tensor = outputs.back().view;
        if (operand.shape != Shape::Tile && !operand.partials) {
          const std::int64_t shape[] = {tensor.shape(0)}, strides[] = {tensor.stride(0)};
          tensor = TensorView(tensor.data(), tensor.dtype(), shape, strides);
        }
      }
      operands.push_back({operand.name, on(tensor, device)});
    }
    return {program_, operands};
  }

  /// The candidates of its product.
  std::vector<Candidate> candidates() {
    std::vector<Matrix> outputs;
    return cuda::cuda_backend().candidates(bound(kGpu, outputs));
  }

 private:
  // The problem on a device, with fresh outputs.
  Problem bound(Device device, std::vector<Matrix>& outputs) {
    const Segment segment = this->segment(device, outputs);
    std::vector<TensorView> b;
    for (const Tensor& weight : weights_) b.push_back(on(weight.view(), device).transposed());
    return b.empty() ? bind_elementwise("elementwise", rows_, cols_, segment)
                     : coda::bind("gemm", on(a_.view(), device), b.size() == 2 ? pair(b[0], b[1]) : Factor(b[0]),
                                  {&segment, 1});
  }

  Tensor numbers(std::initializer_list<std::int64_t> shape, DType dtype, const std::function<double()>& draw) {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    std::vector<double> values(static_cast<std::size_t>(size));
    for (double& value : values) value = draw();
    return Tensor::from(shape, values, dtype);
  }
  Tensor normal(std::initializer_list<std::int64_t> shape, DType dtype) {
    return numbers(shape, dtype, [&] { return std::normal_distribution<double>()(random_); });
  }

  Tensor input(int index) {
    const Operand& operand = program_.operand(index);
    if (operand.role != Role::Input) return {};
    const auto whole = [&](std::int64_t low, std::int64_t high) {
      return static_cast<double>(std::uniform_int_distribution<std::int64_t>(low, high)(random_));
    };
    if (const Node* select = selection(program_, index))
      return numbers({rows_}, DType::I64, [&] {
        const bool ignored = select->ignored && whole(0, 4) == 0;
        return ignored ? static_cast<double>(*select->ignored) : whole(0, cols_ - 1);
      });
    if (operand.partials) {
      const bool of_rows = operand.partials->axis == Axis::Row;
      return numbers({of_rows ? rows_ : kPartials, of_rows ? kPartials : cols_}, DType::F32,
                     [&] { return std::uniform_real_distribution<double>(30, 100)(random_); });
    }
    const std::vector<std::int64_t> shape = operand_shape(operand, rows_, cols_);
    switch (operand.shape) {
      case Shape::Tile: return normal({shape[0], shape[1]}, operand.dtype.value_or(DType::BF16));
      case Shape::Row: return normal({shape[0]}, operand.dtype.value_or(DType::BF16));
      case Shape::Col: return numbers({shape[0]}, operand.dtype.value_or(DType::I32), [&] { return whole(0, 100); });
      case Shape::Scalar: return normal({}, operand.dtype.value_or(DType::F32));
    }
    return {};
  }

  Matrix output(const Operand& operand) const {
    std::vector<std::int64_t> shape = operand_shape(operand, rows_, cols_);
    shape.resize(2, 1);  // of a vector, one column; of a scalar, one element
    const DType dtype = operand.dtype.value_or(operand.partials ? DType::F32 : DType::BF16);
    if (!aligned_ || operand.shape != Shape::Tile) return make_output(shape[0], shape[1], dtype, Layout::Padded);
    Matrix whole{Tensor::empty(shape, dtype), {}};
    whole.view = whole.memory.view();
    return whole;
  }

  const Program program_;
  std::int64_t rows_, cols_;
  bool aligned_;
  std::mt19937_64 random_;
  Tensor a_;
  std::vector<Tensor> weights_;
  std::vector<Tensor> inputs_;
};

inline void expect_close(const Matrix& got, const Matrix& expected, const std::string& what) {
  double scale = 1;
  for (std::int64_t i = 0; i < expected.view.shape(0); ++i)
    for (std::int64_t j = 0; j < expected.view.shape(1); ++j)
      if (std::isfinite(expected.view.at(i, j))) scale = std::max(scale, std::abs(expected.view.at(i, j)));
  const double rounding = expected.view.dtype() == DType::BF16 ? 0.0079 : 1e-6;  // a place of bf16: the sums may differ
  int shown = 0;
  for (std::int64_t i = 0; i < expected.view.shape(0); ++i)
    for (std::int64_t j = 0; j < expected.view.shape(1); ++j) {
      const double x = got.view.at(i, j), y = expected.view.at(i, j);
      const bool same = (std::isnan(x) && std::isnan(y)) || x == y;
      if (same || std::abs(x - y) <= rounding * std::abs(y) + 2e-5 * scale) continue;
      if (++shown <= 3) ADD_FAILURE() << what << " (" << i << ", " << j << "): got " << x << ", expected " << y;
    }
  EXPECT_LE(shown, 3) << what << ": " << shown << " entries differ";
}

/// The emulated GPU's outputs are the reference's, but for rounding.
inline void compare(Case& inputs, const Program& program, const Schedule* schedule = nullptr) {
  const auto expected = inputs.run(cpu::reference_backend(), {}, nullptr);
  const auto got = inputs.run(cuda::cuda_backend(), kGpu, schedule);
  std::size_t i = 0;
  for (const Operand& operand : program.operands()) {
    if (operand.role == Role::Input) continue;
    expect_close(got[i], expected[i], operand.name);
    ++i;
  }
}

/// The least number of columns from `least` on that the program takes.
inline std::int64_t columns(const Program& program, std::int64_t least) {
  const std::int64_t granule = program.column_granule();
  return (least + granule - 1) / granule * granule;
}

}  // namespace coda::testing_support
