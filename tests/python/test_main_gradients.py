"""main_grad=True: what a weight's gradient is added to, by the product that makes it."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from coda_cpp import functional as CF
from functional_cases import D, HEAD, N, tables

SIZES = (2 * HEAD, HEAD, HEAD)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])


@pytest.fixture
def draw(generator):
    return lambda *shape, dtype=torch.float32: (torch.randn(shape, generator=generator) / 8).to(dtype).requires_grad_()


def gate_up(x, both, main_grad):
    return CF.rmsnorm_swiglu(x, None, both, main_grad=main_grad)


def q_k_v(x, both, main_grad):
    rope = CF.Rope(HEAD, **tables(torch.arange(x.shape[0]), x.dtype))
    return torch.cat(CF.rmsnorm_qkv_rope(x, None, both, sizes=SIZES, rope=rope, main_grad=main_grad), -1)


def unused_v(x, both, main_grad):
    return q_k_v(x, both, main_grad)[:, :-HEAD]


STACKED = pytest.mark.parametrize("work, rows", [(gate_up, 2 * N), (q_k_v, sum(SIZES)), (unused_v, sum(SIZES))])


@DTYPES
@STACKED
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_stacked_weight_has_one_main_gradient(draw, work, rows, compiled, dtype):
    """Its rows are added to in place, over two steps; those of a part that nothing reads stay."""
    x, both = draw(5, D, dtype=dtype), draw(rows, D, dtype=dtype)
    once, = torch.autograd.grad(work(x, both, False).square().sum(), both)
    both.main_grad = torch.zeros(rows, D)
    run = torch.compile(work, fullgraph=True, backend="aot_eager") if compiled else work
    for _ in range(2):
        run(x, both, True).square().sum().backward()
    torch._dynamo.reset()
    assert both.grad is None and x.grad is not None
    tolerance = 1e-6 if dtype == torch.float32 else 2.0**-8
    torch.testing.assert_close(both.main_grad, 2 * once.float(), rtol=tolerance, atol=tolerance * once.abs().max().item())


@STACKED
def test_no_copy_of_a_stacked_main_gradient(draw, products, work, rows):
    """All parts are added to by one product, each in its own rows of the one tensor."""
    x, both = draw(5, D), draw(rows, D)
    both.main_grad = torch.zeros(rows, D)
    out = work(x, both, True)
    assert products.of(lambda: out.sum().backward()).count("accumulated") == 1


def test_a_frozen_stacked_weight_needs_none(draw):
    x, both = draw(5, D), draw(2 * N, D).detach()
    gate_up(x, both, True).sum().backward()
    assert both.grad is None and x.grad is not None


def offloaded(work, *arguments):
    """Saved tensors are handed out as copies."""
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor.detach().clone()):
        return work(*arguments)


def checkpointed(work, *arguments):
    return checkpoint(work, *arguments, use_reentrant=False)


@pytest.mark.parametrize("under", [offloaded, checkpointed])
def test_saved_tensors_that_are_copies_lose_nothing(draw, under):
    x, both = draw(5, D), draw(2 * N, D)
    once, = torch.autograd.grad(gate_up(x, both, False).sum(), both)
    both.main_grad = torch.zeros_like(both)
    under(gate_up, x, both, True).sum().backward()
    torch.testing.assert_close(both.main_grad, once)


def test_what_was_added_to_since_the_forward_is_added_to(draw):
    """By PyTorch: its count of writes is not looked at."""
    x, both = draw(5, D), draw(2 * N, D)
    once, = torch.autograd.grad(gate_up(x, both, False).sum(), both)
    both.main_grad = torch.zeros_like(both)
    out = gate_up(x, both, True)
    both.main_grad += 1
    out.sum().backward()
    torch.testing.assert_close(both.main_grad, 1 + once)
