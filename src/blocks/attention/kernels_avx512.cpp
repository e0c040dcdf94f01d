// The loops of attention for AVX-512.
#include <cmath>
#include <cstring>
#include <utility>

#include "blocks/attention/kernels.h"

#if defined(__x86_64__)

// After the headers, so that no inline function of theirs is compiled for this instruction set alone.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#define CODA_LANES 16
#define CODA_HAS_FMA 1

namespace coda::attention {
namespace {
// clang-format off
#include "cpu/fast/vector.inl"
#include "cpu/fast/math.inl"
#include "blocks/attention/kernels.inl"
// clang-format on
}  // namespace

const Kernels* avx512_kernels() {
  const bool usable = __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                      __builtin_cpu_supports("avx512vl") != 0;
  return usable ? &kKernels : nullptr;
}

}  // namespace coda::attention

#else

namespace coda::attention {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace coda::attention

#endif
