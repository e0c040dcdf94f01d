"""Random inputs with a printed seed, and the same tensors in every framework."""

import secrets

import ml_dtypes
import numpy as np
import torch

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {"f32": np.dtype(np.float32), "bf16": BF16, "f16": np.dtype(np.float16)}
# Half a unit in the last place of a stored value, relative.
ROUNDING = {"f64": 2.0**-53, "f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}
TORCH = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
         "i32": torch.int32, "i64": torch.int64}
#: What is raised where a gradient is differentiated.
DIFFERENTIATED_AGAIN = (
    "coda_cpp: a gradient is differentiated again, expected first derivatives alone: coda derives the backward of a program, "
    "not that of its products; use PyTorch's own ops where second derivatives are needed")


def generator(seed=None):
    """A random generator; its seed is printed, so that a failing test can be repeated."""
    seed = secrets.randbits(32) if seed is None else seed
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def torch_generator():
    """The same for torch, on the CPU."""
    seed = torch.seed() % 2**31
    print(f"seed {seed}")
    return torch.Generator().manual_seed(seed)


def to_torch(array):
    """The torch tensor of a numpy array, bf16 too."""
    if array.dtype == BF16:
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))


def to_double(tensor):
    """A double copy of a tensor of either framework."""
    if isinstance(tensor, torch.Tensor):
        return tensor.detach().double().numpy()
    return np.asarray(tensor).astype(np.float64)


def check_close(got, expected, dtype="f32", slack=1e-5):
    """`got` is `expected` (double) but for `slack` of fp32 arithmetic, relative to its scale, and one rounding."""
    got = to_double(got)
    assert got.shape == expected.shape
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    np.testing.assert_allclose(got, expected, rtol=1.01 * ROUNDING[dtype] + slack, atol=slack * scale, equal_nan=True)
