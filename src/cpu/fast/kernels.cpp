#include "cpu/fast/kernels.h"

namespace coda::cpu {
namespace {

const Kernels& best_kernels() {
  if (const Kernels* found = avx512_kernels()) return *found;
  if (const Kernels* found = avx2_kernels()) return *found;
  return *portable_kernels();
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& best = best_kernels();
  return best;
}

}  // namespace coda::cpu
