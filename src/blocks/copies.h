// Copies of matrices on their device, and tensors that come to the host.
#pragma once

#include "coda/backend.h"
#include "coda/tensor.h"

namespace coda {

/// A contiguous copy of a matrix of any strides, rounded to `dtype`, on the matrix's device. Errors: as elementwise.
Tensor copied(const TensorView& matrix, DType dtype, const Execution& where);

/// The tensor itself where it is in host memory, else a copy, which is waited for.
Tensor on_host(const Tensor& tensor, const Execution& where);

}  // namespace coda
