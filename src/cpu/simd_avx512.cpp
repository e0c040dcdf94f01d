// Vectors of sixteen floats: AVX-512.
#include <cmath>
#include <cstring>
#include <utility>

#include "coda/dtype.h"
#include "cpu/fast/kernels.h"
#include "cpu/panel_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

// After the headers, so that no inline function of theirs is compiled for this instruction set alone.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")

// The plain intrinsic has an uninitialised operand, of which GCC warns.
#define CODA_SQRT(x) _mm512_maskz_sqrt_ps(0xffff, x)
#define CODA_HAS_FMA 1
#define CODA_ROWS 6
#define CODA_LANES 16
#define CODA_VECTORS 4
#define CODA_ISA avx512
#define CODA_ISA_NAME "avx512"
#include "cpu/fast/kernels.inl"

namespace coda::cpu {
namespace {

bool usable() {
  return __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}

}  // namespace

const Kernels* avx512_kernels() { return usable() ? &avx512::kKernels : nullptr; }
const PanelKernels* avx512_panel_kernels() { return usable() ? &avx512::kPanelKernels : nullptr; }

}  // namespace coda::cpu

#else

namespace coda::cpu {

const Kernels* avx512_kernels() { return nullptr; }
const PanelKernels* avx512_panel_kernels() { return nullptr; }

}  // namespace coda::cpu

#endif
