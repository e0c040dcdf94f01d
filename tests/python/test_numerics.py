"""What docs/numerics.md says of the delayed norm: its error beside PyTorch's order, and where fp16 ends."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from coda_cpp import blocks
from support import to_double

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import numerics  # noqa: E402


@pytest.mark.parametrize("dtype", numerics.DTYPES)
@pytest.mark.parametrize("outliers", [0.0, 1e3, 1e4])
def test_the_delayed_norm_is_no_worse_than_pytorchs_order(dtype, outliers):
    row = numerics.measure(dtype, 2048, outliers, 1.0, seed=0)
    assert row.forward_coda < row.forward_stock and row.backward_coda < row.backward_stock


@pytest.mark.parametrize("dtype", numerics.DTYPES)
def test_pytorchs_order_is_what_transformers_does(dtype):
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    case = numerics.draw(numerics.DTYPES[dtype], 2048, 1e3, 1.0, torch.Generator().manual_seed(0))
    norm = LlamaRMSNorm(2048, numerics.EPS)
    norm.weight = torch.nn.Parameter(case.gamma)
    x = case.x.clone().requires_grad_(True)
    normed = norm(x)
    out = (normed.detach().float() @ case.weight.float().T).to(x.dtype)
    normed.backward((case.d_out.float() @ case.weight.float()).to(x.dtype))
    expected_out, expected_gradient = numerics.stock(case)
    assert torch.equal(out, expected_out)
    scale = to_double(x.grad).std()
    assert np.abs(to_double(x.grad) - to_double(expected_gradient)).max() <= 0.02 * scale


def test_an_fp16_overflow_reaches_its_row_and_no_other():
    x = torch.randn(3, 64).half()
    x[1, 5] = 40000  # times 2 is beyond 65504
    weight = torch.randn(8, 64).half()
    norm = blocks.RmsNorm(torch.full((64,), 2.0, dtype=torch.float16))
    stream = blocks.enter_norm(x, norm)
    assert stream.h.isinf().sum() == 1 and torch.isfinite(stream.sum_sq).all()
    finite = torch.isfinite(blocks.norm_linear(stream, norm, weight))
    assert finite[[0, 2]].all() and not finite[1].any()
