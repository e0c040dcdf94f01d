"""The cross entropy of a linear layer and its gradients, a chunk of tokens at a time: a chunk's logits become their gradient
in place and are a factor of two products. By the core; nothing waits for the GPU, and nothing is recorded.

Gradients are those of the sum of the losses. The 1/count of a mean is left to the backward, which scales in f32: gradients by
logits that were divided by a count of thousands would be below what float16 holds."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import torch

from .. import _core
from . import launches
from .derived import Derived, derived
from .products import accumulated, added, identity

Tensor = torch.Tensor
_UNIT = 64  # tokens: a chunk is a multiple, so that its tiles are whole


class How(NamedTuple):
    """What is asked of a loss. mean: over the targets that count, else the sum. d_x, d_weight: whether their gradients are
    wanted."""

    ignore_index: int
    mean: bool
    d_x: bool
    d_weight: bool


def loss_of(x: Tensor, weight: Tensor, targets: Tensor, main_grads: Sequence[Tensor],
            how: How) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss; what the sum of losses is divided by; and the gradients of that sum by x (T, K) and weight (V, K), empty where
    not wanted. targets: (T,)."""
    counted = targets != how.ignore_index
    share = counted.to(torch.float32)
    count = share.sum() if how.mean else share.new_ones(())
    rows, chunk = x.shape[0], chunk_of(weight)
    logits = x.new_empty(min(rows, chunk), weight.shape[0]) if how.d_x or how.d_weight else None
    d_x = torch.empty_like(x, memory_format=torch.contiguous_format) if how.d_x else x.new_empty(0)
    by_weight = _WeightGradient(weight, weight_gradient_dtype(weight, main_grads), -(-rows // chunk)) if how.d_weight else None
    per_token = x.new_empty(rows, dtype=torch.float32)
    for start in range(0, rows, chunk):
        part = slice(start, min(start + chunk, rows))
        of = None if logits is None else logits[:part.stop - start]
        per_token[part], lse = _chunk_loss(x[part], weight, targets[part], how.ignore_index, of)
        if of is None:
            continue
        _to_gradient(of, lse, targets[part], share[part], how.ignore_index)
        if how.d_x:
            _product(of, weight, identity(), out=d_x[part])
        if by_weight is not None:
            by_weight.add(of.t(), x[part])
    loss = (torch.where(counted, per_token, 0.0).sum(dtype=torch.float64) / count).to(torch.float32)
    return loss, count, d_x, weight.new_empty(0) if by_weight is None else by_weight.made


def chunk_of(weight: Tensor) -> int:
    """Tokens of a chunk: its logits are as large as the weight, to whose gradient every chunk adds."""
    return _UNIT * max(-(-weight.shape[1] // _UNIT), 1)


def weight_gradient_dtype(weight: Tensor, main_grads: Sequence[Tensor]) -> torch.dtype:
    """Of the gradient by the weight, until the backward scales it: a sum over tokens may be out of float16's range, and what is
    added to a main gradient is rounded there."""
    return torch.float32 if main_grads or weight.dtype == torch.float16 else weight.dtype


class _WeightGradient:
    """The sum of a product for each chunk, in f32. The first writes it, and the last gives it the dtype of `made`, so the
    largest tensor is neither cleared nor converted."""

    def __init__(self, weight: Tensor, dtype: torch.dtype, chunks: int) -> None:
        self.made = weight.new_empty(weight.shape, dtype=dtype) if chunks else weight.new_zeros(weight.shape, dtype=dtype)
        self.sum = self.made if chunks < 2 or dtype == torch.float32 else torch.empty_like(self.made, dtype=torch.float32)
        self.chunks, self.seen = chunks, 0

    def add(self, d: Tensor, x: Tensor) -> None:
        """Adds d @ x."""
        self.seen += 1
        if self.seen == 1:
            _product(d, x, identity(), out=self.sum)
        elif self.seen == self.chunks and self.made is not self.sum:
            _product(d, x, added(), residual=self.sum, out=self.made)
        else:
            _product(d, x, accumulated(), into=self.sum)


def _product(a: Tensor, b: Tensor, program: Derived, **operands: Tensor) -> None:
    """a @ b by a program whose outputs are given."""
    _core.gemm(a, b, [(program.program, operands)], "")


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
    """Turns logits into the gradient by them, in place. share: (rows,), 1 of a token that counts and 0 of one that does not."""
    step = launches.lse(ignore_index, True).parts[0].step(("acc0",), ("lse", "target"))
    program = derived(step.backward.program)
    known = {"logits": logits, "lse": lse, "targets": targets, "d_lse": share, "d_target": -share}
    operands = {name: known[name] for name in program.input_names} | {"d_acc0": logits}
    _core.elementwise(program.program, operands, (logits.shape[0], logits.shape[1]), "")
