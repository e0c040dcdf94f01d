"""Cross entropy of a linear layer. Logits are made a chunk of tokens at a time, become their gradient in place and are a
factor of two products, so they are never whole in memory; nothing waits for the GPU. Gradients are made in the forward, for
a loss gradient of 1, and scaled in the backward."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import torch

from .. import _core
from ..errors import TypeError, ValueError
from . import launches, record, route
from .arguments import Factors, require_tensor
from .derived import derived
from .gradients import only_once
from .products import accumulated, identity, plain

Tensor = torch.Tensor
_CHUNK_BYTES = {"cpu": 64 << 20, "cuda": 256 << 20}  # of logits; a GPU wants products of more rows
_UNIT = 64  # tokens: a chunk is a multiple, so that its tiles are whole


def linear_cross_entropy(x: Tensor, weight: Tensor, targets: Tensor, *, ignore_index: int = -100, reduction: str = "mean",
                         main_grad: bool = False) -> Tensor:
    """cross_entropy(x @ weight.T, targets), one f32 number. weight: (V, K); targets: (...) integers, those of `ignore_index`
    count for nothing; reduction: 'mean' over those that count, or 'sum'."""
    call = "linear_cross_entropy"
    if reduction not in ("mean", "sum"):
        raise ValueError(f"{call}: argument 'reduction' is '{reduction}', expected 'mean' or 'sum': "
                         "linear_cross_entropy_forward gives the loss of each token")
    factors = Factors(call, x, {"weight": weight}, main_grad)
    targets = _targets(factors, targets)
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
    main = tuple(into.t() for into in factors.main_grads if into is not None)
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
        targets = _targets(factors, targets)
        launch = launches.lse(ignore_index, False)
        try:
            lse, target = record.gemm(launch, (factors.x.flatten(0, -2),), (weight.t(),), (targets,))
        except Exception as error:
            factors.refuse(error)
        lse = torch.logsumexp(lse, -1)
        shape = x.shape[:-1]
        return torch.where(targets == ignore_index, 0.0, lse - target).reshape(shape), lse.reshape(shape)


def _targets(factors: Factors, targets: Tensor) -> Tensor:
    require_tensor(factors.call, "targets", targets)
    if targets.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{factors.call}: argument 'targets' has dtype {targets.dtype}, expected torch.int64 or torch.int32")
    expected = () if factors.is_vector else factors.x.shape[:-1]
    if targets.shape != expected:
        raise ValueError(f"{factors.call}: argument 'targets' has shape {list(targets.shape)}, expected {list(expected)}, the "
                         "leading dimensions of 'x'")
    return targets.reshape(-1)


class How(NamedTuple):
    """What is asked of a loss. mean: over the targets that count, else the sum. d_x, d_weight: whether their gradients are
    wanted."""

    ignore_index: int
    mean: bool
    d_x: bool
    d_weight: bool


def loss_of(x: Tensor, weight: Tensor, targets: Tensor, main_grads: Sequence[Tensor], how: How) -> tuple[Tensor, ...]:
    """The loss and its gradients by x and weight, empty where not wanted: f32 where there is a main gradient. By the core;
    records nothing."""
    counted = targets != how.ignore_index
    share = counted.to(torch.float32)
    count = share.sum() if how.mean else 1
    share = share / count
    rows, vocabulary = x.shape[0], weight.shape[0]
    records = how.d_x or how.d_weight
    chunk = min(rows, chunk_of(vocabulary, x)) or 1
    wide = x.dtype == torch.float32 or bool(main_grads) or rows > chunk
    d_x = torch.empty_like(x, memory_format=torch.contiguous_format) if how.d_x else x.new_empty(0)
    d_weight = weight.new_zeros(weight.shape, dtype=torch.float32 if wide else weight.dtype) if how.d_weight \
        else weight.new_empty(0)
    logits = x.new_empty(chunk, vocabulary) if records else None
    per_token = x.new_empty(rows, dtype=torch.float32)
    for start in range(0, rows, chunk):
        part = slice(start, min(start + chunk, rows))
        of = None if logits is None else logits[:part.stop - start]
        per_token[part], lse = _chunk_loss(x[part], weight, targets[part], how.ignore_index, of)
        if of is None:
            continue
        _to_gradient(of, lse, targets[part], share[part], how.ignore_index)
        if how.d_x:
            _core.gemm(of, weight, [(identity().program, {"out": d_x[part]})], "")
        if how.d_weight:
            plain("single", "single", 1, "", accumulated()).run([of.t()], [x[part]], [d_weight])
    loss = torch.where(counted, per_token, 0.0).sum() / count
    return loss, d_x, d_weight if main_grads or not how.d_weight else d_weight.to(weight.dtype)


def chunk_of(vocabulary: int, x: Tensor) -> int:
    """Tokens of a chunk."""
    fit = _CHUNK_BYTES.get(x.device.type, _CHUNK_BYTES["cpu"]) // (max(vocabulary, 1) * x.element_size())
    return max(fit // _UNIT, 1) * _UNIT


def _chunk_loss(x: Tensor, weight: Tensor, targets: Tensor, ignore_index: int,
                logits: Tensor | None) -> tuple[Tensor, Tensor]:
    """The loss of each token, and the log-sum-exp as one partial a row; logits are left in `logits`."""
    program = launches.lse(ignore_index, logits is not None).parts[0].program
    outputs = _core.gemm(x, weight.t(), [(program, {"targets": targets, "logits": logits} if logits is not None
                                          else {"targets": targets})], "")[0]
    named = dict(zip((operand.name for operand in program.operands if operand.role == "out"), outputs))
    lse = torch.logsumexp(named["lse"], -1, keepdim=True)
    return lse[:, 0] - named["target"], lse


def _to_gradient(logits: Tensor, lse: Tensor, targets: Tensor, share: Tensor, ignore_index: int) -> None:
    """Turns logits into the gradient by them, in place. share: (rows,), of the loss of each token."""
    step = launches.lse(ignore_index, True).parts[0].step(("acc0",), ("lse", "target"))
    program = derived(step.backward.program)
    known = {"logits": logits, "lse": lse, "targets": targets, "d_lse": share, "d_target": -share}
    operands = {name: known[name] for name in program.input_names} | {"d_acc0": logits}
    _core.elementwise(program.program, operands, (logits.shape[0], logits.shape[1]), "")


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, main_grads: tuple, how: How) -> Tensor:
        loss, d_x, d_weight = loss_of(x, weight, targets, main_grads, how)
        save(ctx, how, d_x, d_weight, main_grads)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return *backward(ctx, grad), None, None, None


def save(ctx: Any, how: How, d_x: Tensor, d_weight: Tensor, main_grads: Sequence[Tensor]) -> None:
    ctx.how = how
    ctx.save_for_backward(d_x, d_weight, *main_grads)


def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The gradients by x and weight."""
    d_x, d_weight, *main_grads = ctx.saved_tensors
    with torch.no_grad():
        by_x = d_x * grad if ctx.how.d_x else None
        if main_grads:
            main_grads[0].add_(d_weight * grad)
        by_weight = d_weight * grad if ctx.how.d_weight and not main_grads else None
    if torch.is_grad_enabled():
        by_x, by_weight = only_once(by_x), only_once(by_weight)
    return by_x, by_weight
