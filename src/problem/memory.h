// Which tensors share memory, and the rule that outputs do not.
#pragma once

#include "coda/problem.h"

namespace coda {

/// False when no element of `x` shares a byte with one of `y`. Exact for rectangular blocks of one matrix, strided or
/// transposed; other pairs that interleave may give true. Both of rank at most 2.
bool may_overlap(const TensorView& x, const TensorView& y);

/// Refuses an output that is broadcast or that overlaps anything else the problem names. Errors: ValueError.
void check_memory(const Problem& problem);

}  // namespace coda
