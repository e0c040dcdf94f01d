// The part of a kernel's parameter that a segment's program reads: extents, counts of partials, matrices.
#pragma once

#include <cstddef>

#include "coda/problem.h"
#include "cuda/emit/spec.h"

namespace coda::cuda {

/// Writes a segment's Arguments (see emit/distinct.h) at `at`.
void fill_arguments(char* at, const SegmentSpec& spec, const BoundSegment& segment);

}  // namespace coda::cuda
