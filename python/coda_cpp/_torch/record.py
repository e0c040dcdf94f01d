"""The way in: a call that records nothing goes straight to the core, one that does through a lean autograd.Function, and
either, where a compiler or a mode watches, as a torch.library op."""

from __future__ import annotations

from typing import Any, Sequence

import torch

from . import gradients, route
from .launch import Launch, launch_numbered, run_elementwise

Tensors = Sequence[torch.Tensor]


def gemm(launch: Launch, a: Tensors, b: Tensors, operands: Tensors, main_grads: Sequence[torch.Tensor | None] = (), *,
         turned: bool = False) -> list[torch.Tensor]:
    """The outputs of a launch, recorded for autograd where an input requires grad. A and B are rounded to the dtype of
    autocast where that is on. main_grads: for each matrix of B, in its shape, what its gradient is added to, or None. turned:
    matrices of B are given as (N, K), a checkpoint's weights: no transposition is recorded then."""
    a, b = autocast(a), autocast(b)
    inputs = (*a, *b, *operands)
    mask = tuple([tensor.requires_grad for tensor in inputs])
    is_recorded = True in mask and torch.is_grad_enabled()
    if is_recorded and route.is_plain(inputs):
        plan = gradients.plan_of(launch, (len(a), len(b)), mask, turned)
        made = _Gemm.apply(plan, main_grads, *inputs)
        return made if plan.launch is launch else _asked_for(launch, plan.launch, made)
    b = [matrix.t() for matrix in b] if turned else b
    if not is_recorded:
        return route.gemm(launch, a, b, operands)
    main_grads = [into if into is None else into.t() for into in main_grads] if turned else main_grads
    stored = _plan(launch.number, (len(a), len(b)), mask).launch
    return _asked_for(launch, stored, route.gemm_op(stored, a, b, operands, main_grads))


def elementwise(launch: Launch, operands: Tensors, rows: int, cols: int) -> list[torch.Tensor]:
    """The outputs of a pass without accumulator, the launch's one part, recorded likewise."""
    part = launch.parts[0]
    mask = tuple([tensor.requires_grad for tensor in operands])
    if True not in mask or not torch.is_grad_enabled():
        return route.elementwise(part, operands, rows, cols, launch.backend)
    if route.is_plain(operands):
        made = _Elementwise.apply(gradients.plan_of(launch, (0, 0), mask), rows, cols, *operands)
    else:
        storing = _plan(launch.number, (0, 0), mask).launch.parts[0]
        made = route.elementwise(storing, operands, rows, cols, launch.backend)
    return made[:len(part.outputs)]


@torch.compiler.assume_constant_result
def _plan(number: int, counts: tuple[int, int], mask: gradients.Mask) -> gradients.Plan:
    return gradients.plan_of(launch_numbered(number), counts, mask)


def _asked_for(launch: Launch, stored: Launch, made: Tensors) -> list[torch.Tensor]:
    """The outputs of the programs without what they store for the backward, which stands behind those of each."""
    asked, at = [], 0
    for part, storing in zip(launch.parts, stored.parts):
        asked += made[at:at + len(part.outputs)]
        at += len(storing.outputs)
    return asked


def autocast(matrices: Tensors) -> Tensors:
    """Matrices in the dtype of autocast, where that is on; f64 stays, as with PyTorch's own."""
    if not torch._C._is_any_autocast_enabled():  # of any device: torch knows no autocast of some
        return matrices
    device = matrices[0].device.type
    if not torch.is_autocast_enabled(device):
        return matrices
    dtype = torch.get_autocast_dtype(device)
    return [m.to(dtype) if m.is_floating_point() and m.dtype is not torch.float64 else m for m in matrices]


class _Gemm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: gradients.Plan, main_grads: Sequence, *inputs: torch.Tensor) -> tuple:
        in_a, in_b = plan.counts
        b = inputs[in_a:in_a + in_b]
        outputs = plan.launch.run(inputs[:in_a], [matrix.t() for matrix in b] if plan.turned else b, inputs[in_a + in_b:])
        gradients.save(ctx, plan, inputs, outputs, main_grads=main_grads)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple:
        return None, None, *gradients.backward(ctx, grads)


class _Elementwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: gradients.Plan, rows: int, cols: int, *operands: torch.Tensor) -> tuple:
        outputs = run_elementwise(plan.launch.parts[0], operands, rows, cols, plan.launch.backend)
        gradients.save(ctx, plan, operands, outputs, extents=(rows, cols))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple:
        return None, None, None, *gradients.backward(ctx, grads)
