// What a user's program does with an installed coda: a product with an epilogue, its derived backward, a model's files.
// Small integers, so that every number is exact.
#include <cstdio>
#include <vector>

#include "coda/coda.h"

namespace {

using Floats = std::vector<float>;

coda::TensorView matrix(Floats& numbers) { return {numbers.data(), coda::DType::F32, {2, 2}}; }

bool equal(const char* what, const Floats& got, const Floats& expected) {
  if (got == expected) return true;
  std::printf("%s: got %g %g %g %g, expected %g %g %g %g\n", what, got[0], got[1], got[2], got[3], expected[0],
              expected[1], expected[2], expected[3]);
  return false;
}

bool model_names_the_missing_file() {
  try {
    coda::LlamaModel::load("no-such-folder");
  } catch (const coda::FileError& error) {
    return true;
  }
  std::printf("a model was loaded from a folder that is not there\n");
  return false;
}

}  // namespace

int main() {
  coda::Builder b("square");
  b.store("out", coda::square(b.acc() + b.load_row("bias")));
  const coda::Program square = b.build();
  const coda::Backward backward =
      coda::differentiate(square, {"acc0"}, {coda::Cotangent::load("out")}, {.recompute_acc = true});

  Floats x{1, 2, 3, 4}, w{0, 1, -1, 2}, bias{1, -2}, out(4), d_out{1, -1, 2, 3}, d_acc(4);
  const coda::TensorView row(bias.data(), coda::DType::F32, {2});
  coda::gemm(matrix(x), matrix(w).transposed(), square, {{"bias", row}, {"out", matrix(out)}});
  coda::gemm(matrix(x), matrix(w).transposed(), backward.program,
             {{"bias", row}, {"d_out", matrix(d_out)}, {"d_acc0", matrix(d_acc)}});

  const bool good = equal("out", out, {9, 1, 25, 9}) && equal("d_acc0", d_acc, {6, -2, 20, 18});
  return good && model_names_the_missing_file() ? 0 : 1;
}
