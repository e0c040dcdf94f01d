// Gradients against central differences: a program and its derived backward, both run in double by the reference
// backend.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "coda/differentiate.h"
#include "coda/tensor.h"

namespace coda::testing_support {

/// Contiguous tensors of doubles (integers: i32) by operand; accumulators are "acc(0)" and "acc(1)", as large as
/// the output.
using Tensors = std::map<std::string, Tensor>;

/// Interval from which the entries of an operand or accumulator are drawn.
using Domain = std::function<Interval(const std::string& name)>;

struct Extent {
  std::int64_t rows = 3;
  std::int64_t cols = 16;
};

std::int64_t size_of(const Tensor& tensor);
inline double& entry(const Tensor& tensor, std::int64_t at) { return tensor.data<double>()[at]; }

/// Entries from the domain, else from [−2, 2]; of partials, one a line, from [1/4, 1]; column numbers for integers.
Tensors draw_inputs(const Program& program, Extent extent, std::mt19937_64& random, const Domain& domain = {});

/// A tensor like `like`, of normal deviates.
Tensor draw_normal(const Tensor& like, std::mt19937_64& random);

/// Runs the program; its outputs.
Tensors run_program(const Program& program, const Tensors& inputs, Extent extent);

/// Partials finished along their axis; other tensors as they are.
Tensor finished(const Operand& operand, const Tensor& stored);

/// A gradient as its description means it, with one entry for each of its operand's. `tensors` are those the backward
/// read and wrote.
Tensor finished(const Gradient& gradient, const Program& backward, const Tensors& tensors, Extent extent);

/// Sum of the products of the entries.
double inner_product(const Tensor& a, const Tensor& b);

/// What is found wrong, or nothing; and how much was looked at.
struct Verdict {
  std::string wrong{};
  int compared = 0;
  int kinks = 0;  ///< beside one there is no derivative to compare
};

/// In double, draws inputs and cotangents, which are loads or the accumulator, and compares a few entries of the
/// gradient by each of `wrt` with differences.
Verdict check_gradients(const Program& forward, const std::vector<std::string>& wrt,
                        const std::vector<Cotangent>& cotangents, const DifferentiateOptions& options, Extent extent,
                        std::uint64_t seed, const Domain& domain = {});

/// Compares derivatives by what no gradient reaches with 0.
Verdict check_flat(const Program& forward, const std::vector<std::string>& of, Extent extent, std::uint64_t seed);

/// Comparisons, and the condition of a choice, have none.
inline bool has_gradient(Op op, int argument) {
  if (op == Op::Select) return argument > 0;
  return op != Op::Eq && op != Op::Lt && op != Op::Le;
}

/// The program on doubles: no dtype but those of integers, and no rounding.
Program in_double(const Program& program);

/// The accumulators and the inputs that are no integers.
std::vector<std::string> everything(const Program& program);

/// Each output's cotangent as a load.
std::vector<Cotangent> loads(const Program& program);

}  // namespace coda::testing_support
