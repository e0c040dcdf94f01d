#include "blocks/attention/kernels.h"

namespace coda::attention {

const Kernels& kernels() {
  static const Kernels& best = [] {
    const Kernels* found = avx512_kernels();
    if (found == nullptr) found = avx2_kernels();
    return found == nullptr ? *portable_kernels() : *found;
  }();
  return best;
}

}  // namespace coda::attention
