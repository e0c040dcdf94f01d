"""The backward of hidden = gelu(x @ weight.T + bias), derived; it runs inside the product that makes its cotangent."""

import numpy as np

import coda_cpp as coda


@coda.epilogue
def bias_gelu(acc, bias: coda.Row):
    z = acc + bias
    return coda.gelu(z)


forward = coda.with_saved(bias_gelu, ["z"])  # gelu's derivative needs z
backward = coda.differentiate(forward, ["acc0", "bias"], [coda.Cotangent.acc("out"), coda.Cotangent.none("z")])
print(backward.program.text)

rng = np.random.default_rng()
draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)
x, weight, bias, next_weight, d_y = draw(100, 8), draw(16, 8), draw(16), draw(4, 16), draw(100, 4)

hidden = coda.gemm(x, weight.T, forward, bias=bias)
y = coda.gemm(hidden.out, next_weight.T)  # d_y is the gradient of a loss by it

# d_y @ next_weight is the gradient by hidden.out; the epilogue makes of it those by the product and by the bias.
grads = coda.gemm(d_y, next_weight, backward.program, z=hidden.z)
d_x = coda.gemm(grads.d_acc0, weight)
d_weight = coda.gemm(grads.d_acc0.T, x)
d_bias = grads.d_bias.sum(0)  # partial sums, one for every 64 rows


def loss(bias):
    return (coda.gemm(x, weight.T, bias_gelu, bias=bias) @ next_weight.T * d_y).sum(dtype=np.float64)


step = d_bias / np.linalg.norm(d_bias) / 64
print("d_x", d_x.shape, "d_weight", d_weight.shape, "d_bias", d_bias.shape)
print("d_bias is off a central difference by", abs((loss(bias + step) - loss(bias - step)) / (2 * d_bias @ step) - 1))
