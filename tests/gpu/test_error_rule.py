"""The 2× rule: in each 64 × 64 tile, coda's largest error against fp64 is at most twice that of PyTorch's own kernels in
the same dtype, plus one rounding of the data."""

import pytest
import torch

from plans import prepare_candidates

SHAPES = [(333, 520, 1000), (64, 4096, 2048), (1024, 1024, 8192), (7, 129, 63)]
PROGRAMS = ["identity", "bias", "scale", "residual", "bias_silu"]
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
ROUNDING = {"bf16": 2.0**-8, "f16": 2.0**-11}


def tile_max(values):
    """Largest entry of each 64 × 64 tile."""
    rows, cols = values.shape
    padded = torch.nn.functional.pad(values, (0, -cols % 64, 0, -rows % 64))
    return padded.unflatten(0, (-1, 64)).unflatten(2, (-1, 64)).amax((1, 3))


def finish(name, z, bias, residual):
    """PyTorch's epilogue, step by step in z's dtype."""
    bias, residual = bias.to(z.dtype), residual.to(z.dtype)
    return {"identity": lambda: z, "bias": lambda: z + bias, "scale": lambda: z * 0.37, "residual": lambda: z + residual,
            "bias_silu": lambda: torch.nn.functional.silu(z + bias)}[name]()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("outliers", [False, True], ids=["normal", "outliers"])
def test_error_is_at_most_twice_pytorchs(shape, program, dtype, outliers):
    m, n, k = shape
    seed = torch.seed()
    print(f"seed {seed}")
    a, w = (torch.randn(size, device="cuda") for size in ((m, k), (n, k)))
    w /= k**0.5
    if outliers:
        a[:, :: max(k // 5, 1)] *= 100
    a, w = a.to(DTYPES[dtype]), w.to(DTYPES[dtype])
    bias, residual = torch.randn(n, device="cuda").to(a.dtype), torch.randn(m, n, device="cuda").to(a.dtype)
    operands = {"bias": {"bias": bias}, "bias_silu": {"bias": bias}, "scale": {"alpha": 0.37},
                "residual": {"residual": residual}}.get(program, {})
    exact = finish(program, a.double() @ w.double().T, bias, residual)
    theirs = tile_max((finish(program, a @ w.T, bias, residual).double() - exact).abs())
    allowed = 2 * theirs + ROUNDING[dtype] * tile_max(exact.abs())
    for schedule, plan in prepare_candidates(a, w.T, program, every=3, **operands).items():
        ours = tile_max((plan().double() - exact).abs())
        assert (ours <= allowed).all(), f"{schedule}: {(ours / allowed).max().item():.2f} times what is allowed"
