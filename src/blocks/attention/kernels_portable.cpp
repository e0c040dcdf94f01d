// The loops of attention for any machine.
#include <cmath>
#include <cstring>
#include <utility>

#include "blocks/attention/kernels.h"

#define CODA_LANES 4
#define CODA_HAS_FMA 0

namespace coda::attention {
namespace {
// clang-format off
#include "cpu/fast/vector.inl"
#include "cpu/fast/math.inl"
#include "blocks/attention/kernels.inl"
// clang-format on
}  // namespace

const Kernels* portable_kernels() { return &kKernels; }

}  // namespace coda::attention
