// Vectors of four floats: what every x86-64 and aarch64 has.
#include <cmath>
#include <cstring>
#include <utility>

#include "coda/dtype.h"
#include "cpu/fast/kernels.h"
#include "cpu/panel_kernels.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#define CODA_SQRT _mm_sqrt_ps
#define CODA_HAS_FMA 0
#define CODA_ROWS 6
#elif defined(__aarch64__)
#include <arm_neon.h>
#define CODA_SQRT vsqrtq_f32
#define CODA_HAS_FMA 1
#define CODA_ROWS 12
#else
#error "give this architecture a square root of four floats"
#endif

#define CODA_LANES 4
#define CODA_VECTORS 2
#define CODA_ISA portable
#define CODA_ISA_NAME "portable"
#include "cpu/fast/kernels.inl"

namespace coda::cpu {

const Kernels* portable_kernels() { return &portable::kKernels; }
const PanelKernels* portable_panel_kernels() { return &portable::kPanelKernels; }

}  // namespace coda::cpu
