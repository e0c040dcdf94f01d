// The loops of attention for AVX2.
#include <cmath>
#include <cstring>
#include <utility>

#include "blocks/attention/kernels.h"

#if defined(__x86_64__)

// After the headers, so that no inline function of theirs is compiled for this instruction set alone.
#pragma GCC target("avx2,fma,f16c")
#define CODA_LANES 8
#define CODA_HAS_FMA 1

namespace coda::attention {
namespace {
// clang-format off
#include "cpu/fast/vector.inl"
#include "cpu/fast/math.inl"
#include "blocks/attention/kernels.inl"
// clang-format on
}  // namespace

const Kernels* avx2_kernels() {
  const bool usable = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return usable ? &kKernels : nullptr;
}

}  // namespace coda::attention

#else

namespace coda::attention {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace coda::attention

#endif
