// Vectors of eight floats with fused multiply-add: AVX2.
#include <cmath>
#include <cstring>
#include <utility>

#include "coda/dtype.h"
#include "cpu/fast/kernels.h"
#include "cpu/panel_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

// After the headers, so that no inline function of theirs is compiled for this instruction set alone.
#pragma GCC target("avx2,fma,f16c")

#define CODA_SQRT _mm256_sqrt_ps
#define CODA_HAS_FMA 1
#define CODA_ROWS 6
#define CODA_LANES 8
#define CODA_VECTORS 2
#define CODA_ISA avx2
#define CODA_ISA_NAME "avx2"
#include "cpu/fast/kernels.inl"

namespace coda::cpu {
namespace {

bool usable() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }

}  // namespace

const Kernels* avx2_kernels() { return usable() ? &avx2::kKernels : nullptr; }
const PanelKernels* avx2_panel_kernels() { return usable() ? &avx2::kPanelKernels : nullptr; }

}  // namespace coda::cpu

#else

namespace coda::cpu {

const Kernels* avx2_kernels() { return nullptr; }
const PanelKernels* avx2_panel_kernels() { return nullptr; }

}  // namespace coda::cpu

#endif
