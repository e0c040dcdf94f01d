"""Cross entropy of a linear layer, as autograd sees it. Gradients are made in the forward, with the logits at hand (chunks.py),
and scaled in the backward."""

from __future__ import annotations

from typing import Any, Sequence

import torch

from ..errors import TypeError, ValueError
from . import launches, record, route
from .arguments import Factors, require_tensor
from .chunks import How, loss_of
from .gradients import only_once
from .products import scaled

Tensor = torch.Tensor


def linear_cross_entropy(x: Tensor, weight: Tensor, targets: Tensor, *, ignore_index: int = -100, reduction: str = "mean",
                         main_grad: bool = False) -> Tensor:
    """cross_entropy(x @ weight.T, targets), one f32 number. weight: (V, K); targets: (...) integers, those of `ignore_index`
    count for nothing; reduction: 'mean' over those that count, or 'sum'."""
    call = "linear_cross_entropy"
    if reduction not in ("mean", "sum"):
        raise ValueError(f"{call}: argument 'reduction' is '{reduction}', expected 'mean' or 'sum': "
                         "linear_cross_entropy_forward gives the loss of each token")
    factors = Factors(call, x, {"weight": weight}, main_grad)
    targets = _targets(factors, targets, ignore_index)
    try:
        loss = _recorded(factors, weight, targets, ignore_index, reduction == "mean")
    except Exception as error:
        factors.refuse(error)
    return loss


def _recorded(factors: Factors, weight: Tensor, targets: Tensor, ignore_index: int, mean: bool) -> Tensor:
    """The loss, the way that what watches it needs. targets: (T,)."""
    x, weight = record.autocast((factors.x.flatten(0, -2), weight))
    records = torch.is_grad_enabled()
    how = How(ignore_index, mean, records and x.requires_grad, records and weight.requires_grad)
    main = tuple(into for into in factors.main_grads if into is not None)
    if not route.is_plain((x, weight, targets)):
        return torch.ops.coda.linear_cross_entropy(x, weight, targets, list(main), *how)[0]
    if how.d_x or how.d_weight:
        return _Loss.apply(x, weight, targets, main, how)
    return loss_of(x, weight, targets, main, how)[0]


def linear_cross_entropy_forward(x: Tensor, weight: Tensor, targets: Tensor, *,
                                 ignore_index: int = -100) -> tuple[Tensor, Tensor]:
    """The loss of each token, 0 where it is ignored, and the log-sum-exp of its logits: two of (...) f32, without gradient."""
    with torch.no_grad():
        factors = Factors("linear_cross_entropy_forward", x, {"weight": weight}, False)
        targets = _targets(factors, targets, ignore_index)
        launch = launches.lse(ignore_index, False)
        try:
            lse, target = record.gemm(launch, (factors.x.flatten(0, -2),), (weight,), (targets,), turned=True)
        except Exception as error:
            factors.refuse(error)
        lse = torch.logsumexp(lse, -1)
        shape = x.shape[:-1]
        return torch.where(targets == ignore_index, 0.0, lse - target).reshape(shape), lse.reshape(shape)


def _targets(factors: Factors, targets: Tensor, ignore_index: int) -> Tensor:
    """Targets (T,)."""
    require_tensor(factors.call, "targets", targets)
    if not isinstance(ignore_index, int):
        raise TypeError(f"{factors.call}: argument 'ignore_index' is a {type(ignore_index).__name__}, expected an int")
    if targets.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{factors.call}: argument 'targets' has dtype {targets.dtype}, expected torch.int64 or torch.int32")
    expected = () if factors.is_vector else factors.x.shape[:-1]
    if targets.shape != expected:
        raise ValueError(f"{factors.call}: argument 'targets' has shape {list(targets.shape)}, expected {list(expected)}, the "
                         "leading dimensions of 'x'")
    return targets.reshape(-1)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, main_grads: tuple, how: How) -> Tensor:
        loss, *made = loss_of(x, weight, targets, main_grads, how)
        save(ctx, how, x.dtype, made, main_grads)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return *backward(ctx, grad), None, None, None


def save(ctx: Any, how: How, dtype: torch.dtype, made: Sequence[Tensor], main_grads: Sequence[Tensor]) -> None:
    """Keeps what `backward` reads in an autograd context. dtype: of x and weight; made: what loss_of gives behind the loss."""
    ctx.how, ctx.dtype = how, dtype
    ctx.into = tuple(main_grads)  # not saved: autograd would refuse those that other backwards have added to since
    ctx.save_for_backward(*made)


def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The gradients by x and weight. Scaled in f32, out of place: the next backward through the same loss finds them whole."""
    return tuple(only_once(_backward, ctx, grad))


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    count, d_x, d_weight = ctx.saved_tensors
    scale = grad / count.clamp(min=1)  # where nothing counts, gradients are 0, as PyTorch's
    by_x = _scaled(d_x, scale, ctx.dtype) if ctx.how.d_x else None
    by_weight = _scaled(d_weight, scale, ctx.dtype) if ctx.how.d_weight and not ctx.into else None
    for main_grad in ctx.into:
        main_grad.addcmul_(d_weight, scale)
    return by_x, by_weight


def _scaled(matrix: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """By coda: PyTorch would round the scale to the dtype of the matrix first."""
    return route.elementwise(scaled(dtype), (matrix, scale), *matrix.shape, "")[0]
