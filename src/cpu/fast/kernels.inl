// Everything an instruction set has of its own, put together. The including file (simd_<name>.cpp) has included the
// headers, switched the compiler's target and set CODA_LANES, CODA_ROWS, CODA_VECTORS, CODA_HAS_FMA, CODA_ISA,
// CODA_ISA_NAME and CODA_SQRT.

namespace coda::cpu::CODA_ISA {
namespace {

#include "cpu/fast/vector.inl"

inline Vector sqrt_lanes(Vector x) { return (Vector)CODA_SQRT(x); }

// clang-format off
#include "cpu/fast/math.inl"
#include "cpu/fast/map.inl"
#include "cpu/fast/memory.inl"
#include "cpu/fast/columns.inl"
#include "cpu/fast/panel.inl"
// clang-format on

constexpr Kernels kKernels = {CODA_ISA_NAME, map,    round,    load_memory, store_memory, split,
                              join,          repeat, span_sum, reduce_row,  reduce_col,   finish_col};

constexpr PanelKernels kPanelKernels = {CODA_ISA_NAME, kRowBlock, kRowPitch,      a_bytes, b_bytes,
                                        pack_a,        pack_b,    reads_in_place, multiply};

}  // namespace
}  // namespace coda::cpu::CODA_ISA
