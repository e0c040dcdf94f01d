// A matrix product with a program on its output: gelu(x·Wᵀ + bias), on memory of your own.
#include <cstdio>
#include <vector>

#include "coda/coda.h"

int main() {
  coda::Builder b("bias_gelu");
  const coda::Value acc = b.acc(), bias_row = b.load_row("bias").named("bias");
  b.store("out", coda::gelu(acc + bias_row).named("out"));
  const coda::Program program = b.build();

  std::vector<float> x{1, 2, 3, 4, 5, 6}, weight{0, 1, -1, 1, 0, 1}, bias{0.5f, -3}, y(4);
  const coda::TensorView w(weight.data(), coda::DType::F32, {2, 3});
  coda::gemm(coda::TensorView(x.data(), coda::DType::F32, {2, 3}), w.transposed(), program,
             {{"bias", {bias.data(), coda::DType::F32, {2}}}, {"out", {y.data(), coda::DType::F32, {2, 2}}}});

  std::printf("%s%.4f %.4f\n%.4f %.4f\n", coda::to_text(program).c_str(), y[0], y[1], y[2], y[3]);
}
