// Copies of matrices that stay on their device.
#pragma once

#include "coda/backend.h"
#include "coda/tensor.h"

namespace coda {

/// A contiguous copy of a matrix of any strides, rounded to `dtype`, on the matrix's device. Errors: as elementwise.
Tensor copied(const TensorView& matrix, DType dtype, const Execution& where);

}  // namespace coda
