"""coda.gemm and elementwise under autograd: factors of several matrices, programs of several outputs."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import coda_cpp as coda


@pytest.fixture
def draw(generator):
    return lambda *shape: torch.randn(shape, generator=generator).requires_grad_()


def expect_same_gradients(ours, theirs, leaves):
    grad = torch.randn(theirs.shape)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    got, expected = (torch.autograd.grad(out, leaves, grad, allow_unused=True) for out in (ours, theirs))
    for mine, truth in zip(got, expected):
        torch.testing.assert_close(mine, truth, rtol=1e-4, atol=1e-4)


def test_matrices_joined_along_k(draw):
    a, b, v, w = draw(7, 24), draw(7, 8), draw(40, 24), draw(40, 8)
    ours = coda.gemm(coda.concat_k(a, b), coda.concat_k(v.T, w.T), "sigmoid")
    expect_same_gradients(ours, (a @ v.T + b @ w.T).sigmoid(), [a, b, v, w])


def test_rows_joined(draw):
    a, b, w, bias = draw(7, 24), draw(3, 24), draw(24, 40), draw(40)
    first, second = coda.gemm(coda.concat(a, b), w, [coda.segment("bias_gelu", bias=bias), "sigmoid"])
    expect_same_gradients(torch.cat([first, second]), torch.cat([F.gelu(a @ w + bias), (b @ w).sigmoid()]), [a, b, w, bias])


def test_rows_joined_of_which_the_one_used_is_frozen(draw):
    a, b, w = draw(7, 24), draw(3, 24).detach(), draw(24, 40)
    _, second = coda.gemm(coda.concat(a, b), w, ["sigmoid", "sigmoid"])
    expect_same_gradients(second, (b @ w).sigmoid(), [w])


def test_columns_joined_of_which_some_are_not_used(draw):
    x, v, w, u = draw(2, 7, 24), draw(40, 24), draw(16, 24), draw(8, 24)
    _, middle, last = coda.gemm(x, coda.concat(v.T, w.T, u.T), ["sigmoid", "sigmoid", "identity"])
    expect_same_gradients(torch.cat([middle, last], -1), torch.cat([(x @ w.T).sigmoid(), x @ u.T], -1), [x, v, w, u])


@coda.epilogue
def several(acc, bias: coda.Row, scale: coda.Scalar, extra: coda.Tile):
    z = acc + bias
    return {"out": coda.tanh(z) * scale, "product": z * extra, "total": coda.reduce_row(z * z, "sum", 64),
            "largest": coda.reduce_row(z, "max", 64)}


@pytest.mark.parametrize("used", [("out",), ("product",), ("total",), ("out", "total"), ("out", "product", "total")], ids=str)
def test_some_of_several_outputs(draw, used):
    """What an unused output alone depends on has no gradient; the largest entries have none at all."""
    x, w, bias, scale, extra = draw(5, 24), draw(100, 24), draw(100), draw(), draw(5, 100)
    out = coda.gemm(x, w.T, several, bias=bias, scale=scale, extra=extra)
    assert out.out.requires_grad and not out.largest.requires_grad
    z = x @ w.T + bias
    theirs = {"out": z.tanh() * scale, "product": z * extra, "total": (z * z).sum(-1, keepdim=True)}
    ours = {"out": out.out, "product": out.product, "total": out.total.sum(-1, keepdim=True)}
    expect_same_gradients(sum(ours[name] for name in used), sum(theirs[name] for name in used), [x, w, bias, scale, extra])


def test_a_scalar_may_be_a_number(draw):
    x, w = draw(5, 24), draw(40, 24)
    for alpha in (0.5, np.float32(0.5)):
        expect_same_gradients(coda.gemm(x, w.T, "scale", alpha=alpha), x @ w.T * 0.5, [x, w])


def test_log_sum_exp_and_target(draw):
    x, w, targets = draw(5, 24), draw(64, 24), torch.tensor([1, 0, -100, 63, 7])
    out = coda.gemm(x, w.T, "lse", targets=targets)
    logits = x @ w.T
    theirs = logits.logsumexp(-1) - torch.where(targets < 0, 0, logits.gather(1, targets.clamp(0)[:, None])[:, 0])
    expect_same_gradients(out.lse[:, 0] - out.target, theirs, [x, w])


def test_elementwise_with_a_norm_behind_it(draw):
    x, gamma, w = draw(2, 5, 100), draw(100), draw(40, 100)
    entry = coda.elementwise("rms_entry", x=x, gamma=gamma)
    ours = coda.gemm(entry.h, w.T, coda.epilogues.rms(count=100), sum_sq=entry.sum_sq)
    expect_same_gradients(ours, F.linear(F.rms_norm(x, (100,), gamma, 1e-6), w), [x, gamma, w])


def test_nothing_is_recorded_under_no_grad_or_of_frozen_tensors(draw):
    x, w = draw(5, 24), draw(40, 24)
    with torch.no_grad():
        assert not coda.gemm(x, w.T).requires_grad
    assert not coda.gemm(x.detach(), w.detach().T).requires_grad
    out = torch.empty(5, 40)
    with torch.no_grad():
        assert coda.gemm(x, w.T, out=out) is out


def test_outputs_that_are_given_count_as_written_in_place(draw):
    """As torch's own: what autograd kept of them is another."""
    x, w, out, h = draw(5, 24), draw(40, 24).detach(), torch.ones(5, 40), torch.ones(5, 24)
    losses = [(x @ w.T * out).sum(), (x * h).sum()]
    coda.gemm(x.detach(), w.T, out=out)
    coda.elementwise("rms_entry", x=x.detach(), gamma=torch.ones(24), h=h)
    for loss in losses:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    with torch.inference_mode():
        coda.gemm(x.detach(), w.T, out=torch.empty(5, 40))


@coda.epilogue
def with_sums(acc):
    return {"out": acc, "down": coda.reduce_col(acc, "sum", 64), "along": coda.reduce_row(acc, "sum", 64)}


@pytest.mark.parametrize("lead", [(0,), (2, 0), (3,), (2, 70)], ids=str)
def test_sums_over_few_rows_and_none(draw, lead):
    x, w = draw(*lead, 8), draw(192, 8)
    expect_same_gradients(coda.gemm(x, w.T, with_sums).down.sum(0), (x @ w.T).flatten(0, -2).sum(0), [x, w])
    expect_same_gradients(coda.gemm(x, w.T, with_sums).along.sum(-1), (x @ w.T).sum(-1), [x, w])
