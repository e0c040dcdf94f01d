"""Prepared calls on the CPU; tests/gpu/test_contract.py has what only a GPU has."""

import numpy as np
import pytest
import torch

import coda_cpp as coda
from support import check_close, generator


def draw(rows=5):
    rng = generator()
    return (torch.from_numpy(rng.standard_normal(shape).astype(np.float32)) for shape in ((rows, 24), (40, 24), (rows, 40)))


@pytest.mark.parametrize("convert", [torch.Tensor.clone, torch.Tensor.numpy], ids=["torch", "numpy"])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_run_reads_what_is_there_and_writes_the_same_outputs(rows, convert):
    x, w, residual = map(convert, draw(rows))
    plan = coda.prepare(x, w.T, "residual", residual=residual)
    for _ in range(2):
        x += 1
        out = plan()
        assert out is plan.outputs and type(out) is type(x)
        check_close(out, np.asarray(x, np.float64) @ np.asarray(w, np.float64).T + np.asarray(residual, np.float64))
    assert plan.schedule is None and plan.workspace_bytes == 0


def test_outputs_given_and_several_segments():
    x, w, _ = draw()
    out = torch.empty(5, 40)
    plan = coda.prepare(x, coda.concat(w.T, w.T), [coda.segment("identity", out=out), coda.segment("bias", bias=w[:, 0])])
    first, second = plan()
    assert first is out
    check_close(first, x.double().numpy() @ w.double().numpy().T)
    assert torch.equal(second, first + w[:, 0])


def test_a_run_counts_as_a_write_in_place():
    """As torch's own: what autograd kept of the run before is another."""
    x, w, factor = draw()
    plan = coda.prepare(x, w.T)
    factor.requires_grad_()
    (plan() * factor).sum().backward()
    loss = (plan() * factor).sum()
    plan()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.inference_mode():
        coda.prepare(x, w.T)()


@pytest.mark.parametrize("options, text", [
    ({"stream": "0"}, "Plan: argument 'stream' is '0', expected a CUstream's address, as the cuda_stream of a "
                      "torch.cuda.Stream, or None"),
    ({"stream": -1}, "Plan: argument 'stream' is -1, expected a CUstream's address, as the cuda_stream of a "
                     "torch.cuda.Stream, or None"),
    ({"workspace": bytearray(8)}, "Plan: argument 'workspace' is a bytearray, expected a torch tensor on the GPU"),
])
def test_mistakes_name_the_argument(options, text):
    x, w, _ = draw()
    with pytest.raises(TypeError) as caught:
        coda.prepare(x, w.T)(**options)
    assert str(caught.value) == text
