// What src/problem refuses of factors, accumulators and names, and its text.
#include <gtest/gtest.h>

#include "problem_calls.h"
#include "support/error_row.h"

namespace coda {
namespace {

using namespace testing_support;

Program gated() {
  Builder b("gated");
  b.store("out", b.acc(0) * b.acc(1));
  return b.build();
}

// Binds bias() to factors that are the mistake.
std::function<void()> factors(Factor a, Factor b) {
  return [=] { bind_one(a, b, bias(), {}); };
}

TEST(BindErrors, OfFactorsHaveTheirText) {
  float number = 0;
  const TensorView on_device(&number, DType::F32, {4, 6}, Device{DeviceKind::Cuda, 1});
  Factor three = pair(f32({6, 8}), f32({6, 8})), two;
  three.parts.push_back(f32({6, 8}));
  two.parts = {f32({4, 6}), f32({4, 6})};
  expect_errors({
      {typeid(ValueError), "gemm: A has no matrix, expected at least one", factors({}, f32({6, 8}))},
      {typeid(ValueError), "gemm: B has no matrix, expected at least one", factors(f32({4, 6}), concat({}))},
      {typeid(ValueError), "gemm: A has 2 matrices, expected 1: join several with pair, concat or concat_k",
       factors(two, f32({6, 8}))},
      {typeid(ValueError), "gemm: B is a pair of 3 matrices, expected 2", factors(f32({4, 6}), three)},
      {typeid(ValueError), "gemm: A is a pair, expected one matrix, a concat or a concat_k: only B can be a pair",
       factors(pair(f32({4, 6}), f32({4, 6})), f32({6, 8}))},
      {typeid(NotImplementedError),
       "gemm: A and B are both a concat, expected one of them: make one call for each part of A",
       factors(concat({f32({4, 6})}), concat({f32({6, 8})}))},
      {typeid(ValueError),
       "gemm: A is a concat_k of 2 and B is no concat_k, expected both to be one of as many matrices: each part of A "
       "multiplies the same part of B",
       factors(concat_k({f32({4, 3}), f32({4, 3})}), f32({6, 8}))},
      {typeid(ValueError),
       "gemm: A is a concat_k of 2 and B is a concat_k of 1, expected both to be one of as many matrices: each part of "
       "A multiplies the same part of B",
       factors(concat_k({f32({4, 3}), f32({4, 3})}), concat_k({f32({6, 8})}))},
      {typeid(ValueError), "gemm: A has shape [6], expected 2 dimensions (M, K): reshape it to a matrix",
       factors(f32({6}), f32({6, 8}))},
      {typeid(ValueError), "gemm: B part 1 has shape [1, 6, 8], expected 2 dimensions (K, N): reshape it to a matrix",
       factors(f32({4, 6}), concat({f32({6, 8}), f32({1, 6, 8})}))},
      {typeid(TypeError), "gemm: A has dtype i32, expected f32, bf16, f16 or f64: convert it",
       factors(Tensor::zeros({4, 6}, DType::I32), f32({6, 8}))},
      {typeid(TypeError), "gemm: B has dtype bf16, expected f32, the dtype of A: convert one of them",
       factors(f32({4, 6}), Tensor::zeros({6, 8}, DType::BF16))},
      {typeid(ValueError), "gemm: B is on cpu, expected cuda:1, the device of A: copy it there",
       factors(on_device, f32({6, 8}))},
      {typeid(ValueError),
       "gemm: A of shape [4, 6] has no memory, expected a pointer to its elements: allocate it first",
       factors(TensorView(nullptr, DType::F32, {4, 6}), f32({6, 8}))},
  });
}

TEST(BindErrors, OfExtentsHaveTheirText) {
  expect_errors({
      {typeid(ValueError),
       "gemm: B has shape [8, 6], expected [6, N] (K, N), as A has shape [4, 6]: a weight of shape (N, K) is passed as "
       "weight.transposed()",
       factors(f32({4, 6}), f32({8, 6}))},
      {typeid(ValueError),
       "gemm: B part 1 has shape [4, 8], expected [3, N] (K, N), as A part 1 has shape [4, 3]: a weight of shape (N, "
       "K) "
       "is passed as weight.transposed()",
       factors(concat_k({f32({4, 6}), f32({4, 3})}), concat_k({f32({6, 8}), f32({4, 8})}))},
      {typeid(ValueError),
       "gemm: A part 1 has shape [4, 7], expected 6 columns (K), as part 0 of shape [4, 6]: a concat of A joins rows",
       factors(concat({f32({4, 6}), f32({4, 7})}), f32({6, 8}))},
      {typeid(ValueError),
       "gemm: A part 1 has shape [5, 6], expected 4 rows (M), as part 0 of shape [4, 6]: a concat_k of A joins columns",
       factors(concat_k({f32({4, 6}), f32({5, 6})}), concat_k({f32({6, 8}), f32({6, 8})}))},
      {typeid(ValueError),
       "gemm: B part 1 has shape [6, 9], expected 8 columns (N), as part 0 of shape [6, 8]: a concat_k of B joins rows",
       factors(concat_k({f32({4, 6}), f32({4, 6})}), concat_k({f32({6, 8}), f32({6, 9})}))},
      {typeid(ValueError),
       "gemm: B part 1 has shape [6, 9], expected 8 columns (N), as part 0 of shape [6, 8]: the two matrices of a pair "
       "have one shape",
       factors(f32({4, 6}), pair(f32({6, 8}), f32({6, 9})))},
      {typeid(ValueError), "gemm: got 1 segment, expected 2, one for each part of B",
       factors(f32({4, 6}), concat({f32({6, 8}), f32({6, 8})}))},
      {typeid(ValueError), "gemm: got 1 segment, expected 2, one for each part of A",
       factors(concat({f32({4, 6}), f32({4, 6})}), f32({6, 8}))},
      {typeid(ValueError), "gemm: got 0 segments, expected 1: only a concat factor has several",
       [] { (void)bind("gemm", f32({4, 6}), f32({6, 8}), {}); }},
      {typeid(ValueError), "elementwise: got an output of -1 rows and 8 columns, expected 0 or more of each",
       [] { bind_pass(-1, 8, copy(), {}); }},
      {typeid(ValueError), "elementwise: got 1 segments and 2 numbers of columns, expected as many of each, at least 1",
       side_by_side({8, 8}, {{copy(), {{"x", f32({4, 8})}, {"out", f32({4, 8})}}}})},
      {typeid(ValueError), "elementwise: got 0 segments and 0 numbers of columns, expected as many of each, at least 1",
       side_by_side({}, {})},
      {typeid(ValueError),
       "elementwise: operand 'x' of segment 1 has shape [4, 8], expected [4, 6] (M, N): a tile covers "
       "the whole output",
       side_by_side({8, 6}, {{copy(), {{"x", f32({4, 8})}, {"out", f32({4, 8})}}},
                             {copy(), {{"x", f32({4, 8})}, {"out", f32({4, 6})}}}})},
  });
}

TEST(BindErrors, OfAccumulatorsHaveTheirText) {
  const Factor two = pair(f32({6, 8}), f32({6, 8}));
  expect_errors({
      {typeid(ValueError), "gemm: program 'copy' reads 0 accumulators, expected 1: without one, use elementwise",
       [] { bind_product(copy(), {}); }},
      {typeid(ValueError),
       "elementwise: program 'bias' reads 1 accumulator, expected none in an elementwise pass: use gemm",
       [] { bind_pass(4, 8, bias(), {}); }},
      {typeid(ValueError), "gemm: program 'gated' reads 2 accumulators, but B gives 1: pass pair(first, second) as B",
       [] { bind_product(gated(), {}); }},
      {typeid(ValueError),
       "gemm: program 'bias' reads 1 accumulator, but B is a pair, which gives 2: pass one matrix as B",
       [&] { bind_one(f32({4, 6}), two, bias(), {}); }},
  });
}

TEST(BindErrors, OfNamesHaveTheirText) {
  const Tensor row = f32({8}), out = f32({4, 8});
  expect_errors({
      {typeid(ValueError),
       "gemm: operand 'bais' is none of program 'bias', expected 'bias', 'out': did you mean 'bias'?",
       [&] { bind_product(bias(), {{"bais", row}, {"out", out}}); }},
      {typeid(ValueError), "gemm: operand 'residual' is none of program 'bias', expected 'bias', 'out': leave it out",
       [&] { bind_product(bias(), {{"residual", out}}); }},
      {typeid(ValueError), "gemm: operand 'bias' is given twice, expected each name once: leave one out",
       [&] { bind_product(bias(), {{"bias", row}, {"bias", row}}); }},
      {typeid(ValueError),
       "gemm: operand 'bias' is missing, expected a tensor of shape [8] (N): a row vector spans the columns of the "
       "output",
       [&] { bind_product(bias(), {{"out", out}}); }},
      {typeid(ValueError),
       "gemm: operand 'bias' of segment 1 is missing, expected a tensor of shape [3] (N): a row vector spans the "
       "columns "
       "of the output",
       [&] {
         const Segment segments[] = {{bias(), {{"bias", row}, {"out", out}}}, {bias(), {}}};
         (void)bind("gemm", f32({4, 6}), concat({f32({6, 8}), f32({6, 3})}), segments);
       }},
      {typeid(ValueError),
       "gemm: operand 'bais' of segment 1 is none of program 'bias', expected 'bias', 'out': did you mean 'bias'?",
       [&] {
         const Segment segments[] = {{bias(), {{"bias", row}, {"out", out}}}, {bias(), {{"bais", row}}}};
         (void)bind("gemm", f32({4, 6}), concat({f32({6, 8}), f32({6, 3})}), segments);
       }},
  });
}

}  // namespace
}  // namespace coda
