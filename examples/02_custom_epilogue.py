"""The same product and program in Python: gelu(x @ weight.T + bias), on numpy arrays or torch CPU tensors."""

import numpy as np

import coda_cpp as coda


@coda.epilogue
def bias_gelu(acc, bias: coda.Row):
    return coda.gelu(acc + bias)


x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
weight = np.array([[0, 1, -1], [1, 0, 1]], np.float32)
y = coda.gemm(x, weight.T, bias_gelu, bias=np.array([0.5, -3], np.float32))
print(bias_gelu.text + str(y.round(4)))
