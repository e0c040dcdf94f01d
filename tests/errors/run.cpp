// Every mistake src/gemm.cpp refuses, and its text.
#include <gtest/gtest.h>

#include "coda/build.h"
#include "coda/gemm.h"
#include "support/error_row.h"

namespace coda {
namespace {

using testing_support::expect_errors;

TEST(RunErrors, HaveTheirText) {
  std::string known;
  for (const DeviceKind device : {DeviceKind::Cuda, DeviceKind::Cpu})
    for (const std::string_view name : backend_names(device))
      known += (known.empty() ? "'" : " or '") + std::string(name) + "'";
  Builder b("copy");
  b.store("out", b.load_tile("x"));
  const Program copy = b.build();
  const Tensor x = Tensor::zeros({2, 2}, DType::F32), out = Tensor::zeros({2, 2}, DType::F32);
  const Tensor wide = Tensor::zeros({2, 2}, DType::F64);
  const std::string unknown = "find_backend: backend 'fats' is not in this build, expected " + known;
  expect_errors({
      {typeid(ValueError), unknown, [] { find_backend("fats"); }},
      {typeid(ValueError), unknown, [&] { elementwise(2, 2, copy, {{"x", x}, {"out", out}}, "fats"); }},
      {typeid(NotImplementedError),
       "elementwise: backend 'fast' cannot run this: it computes in f32 and takes no f64 tensor; use the backend "
       "'reference'",
       [&] { elementwise(2, 2, copy, {{"x", wide}, {"out", out}}, "fast"); }},
      {typeid(NotImplementedError),
       "elementwise: backend 'cuda' cannot run this: the tensors are on cpu, where it does not run",
       [&] { elementwise(2, 2, copy, {{"x", x}, {"out", out}}, "cuda"); }},
      {typeid(ValueError), "set_num_threads: got -1, expected 1 or more, or 0 for the default",
       [] { set_num_threads(-1); }},
  });
}

}  // namespace
}  // namespace coda
