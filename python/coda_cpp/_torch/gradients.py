"""The backward of a call of gemm or elementwise. No gradient is typed here: an elementwise pass runs the derived program of
each part, whose d_acc are what the products for A and B take as a factor."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Sequence

import torch

from ..errors import NotImplementedError
from .launch import Launch, launch_of, rows_of, split
from .part import PartBackward
from .products import Products

Mask = tuple[bool, ...]
Grads = Sequence["torch.Tensor | None"]


class Plan(NamedTuple):
    """What is fixed about the backward of a call: the launch that also stores what it reads, and what to keep."""

    launch: Launch
    """Of an elementwise pass its one part."""
    counts: tuple[int, int]
    """Matrices of A and of B."""
    mask: Mask
    """Of all inputs, A, B, then operands: whether a gradient is wanted."""
    wanted: tuple[tuple[str, ...], ...]
    """For each part."""
    kept: tuple[int, ...]
    """Inputs, then outputs, that are saved."""
    silent: tuple[int, ...]
    """Outputs without a gradient."""


@functools.lru_cache(maxsize=4096)
def plan_of(launch: Launch, counts: tuple[int, int], mask: Mask) -> Plan:
    """The plan for the gradients by the inputs in `mask`. Errors: those of Derived.storing."""
    wanted = tuple(_wanted(launch, i, counts, mask) for i in range(len(launch.parts)))
    storing = tuple(part.storing(names) for part, names in zip(launch.parts, wanted))
    stored = launch_of(launch.a_view, launch.b_view, storing, launch.backend)
    plan = Plan(stored, counts, mask, wanted, (), ())
    return plan._replace(kept=tuple(sorted(_kept(plan))), silent=tuple(_silent(plan)))


def _wanted(launch: Launch, part: int, counts: tuple[int, int], mask: Mask) -> tuple[str, ...]:
    """The accumulators and inputs of a part that gradients are wanted by."""
    in_a, in_b = counts
    of_a, of_b = mask[:in_a], mask[in_a:in_a + in_b]
    needs_a = of_a[part] if launch.a_view == "concat" else any(of_a)
    names = []
    for which, name in enumerate(launch.parts[part].accumulators):
        own = {"concat": of_b[part:part + 1], "pair": of_b[which:which + 1]}.get(launch.b_view, of_b)
        if needs_a or any(own):
            names.append(name)
    operands = split(mask[in_a + in_b:], launch.parts)[part]
    return (*names, *(name for name, needs in zip(launch.parts[part].input_names, operands) if needs))


def _kept(plan: Plan) -> set[int]:
    """Positions among inputs, then outputs, of what the backward reads when all outputs have a gradient."""
    in_a, in_b = plan.counts
    kept: set[int] = set()
    if any(plan.mask[:in_a]):
        kept.update(range(in_a, in_a + in_b))
    if any(plan.mask[in_a:in_a + in_b]):
        kept.update(range(in_a))
    at, out = in_a + in_b, len(plan.mask)
    for part, wanted in zip(plan.launch.parts, plan.wanted):
        names = part.step(wanted, part.smooth).kept
        kept.update(at + i for i, name in enumerate(part.input_names) if name in names)
        kept.update(out + i for i, name in enumerate(part.output_names) if name in names)
        at, out = at + len(part.inputs), out + len(part.outputs)
    return kept


def _silent(plan: Plan) -> list[int]:
    names = [(part, name) for part in plan.launch.parts for name in part.output_names]
    return [i for i, (part, name) in enumerate(names) if name not in part.smooth]


def save(ctx: Any, plan: Plan, inputs: Grads, outputs: list[torch.Tensor], extents: tuple[int, int] | None = None,
         main_grads: Grads = ()) -> None:
    """Keeps what `backward` reads in an autograd context. extents: rows and columns of an elementwise pass. main_grads: for
    each matrix of B, in its shape, what its gradient is added to, or None; or nothing."""
    every = (*inputs, *outputs)
    ctx.save_for_backward(*[every[i] for i in plan.kept], *[into for into in main_grads if into is not None])
    ctx.adds = tuple(into is not None for into in main_grads)
    ctx.plan = plan
    ctx.extents = extents
    ctx.shapes = [tensor.shape for tensor in inputs]
    ctx.dtype = inputs[0].dtype
    ctx.set_materialize_grads(False)
    if plan.silent:
        ctx.mark_non_differentiable(*[outputs[i] for i in plan.silent])


def backward(ctx: Any, grads: Grads) -> list[torch.Tensor | None]:
    """The gradients by all inputs of a call, A, B, then operands; None where none is wanted or found."""
    if not torch.is_grad_enabled():
        return _backward(ctx, grads)
    with torch.no_grad():
        found = _backward(ctx, grads)
    return [only_once(gradient) for gradient in found]


def only_once(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """A gradient that refuses to be differentiated."""
    return None if gradient is None else _Once.apply(gradient.detach().requires_grad_())


class _Once(torch.autograd.Function):

    @staticmethod
    def forward(gradient: torch.Tensor) -> torch.Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> None:
        raise NotImplementedError(
            "coda_cpp: a gradient is differentiated again, expected first derivatives alone: coda derives the backward of a "
            "program, not that of its products; use PyTorch's own ops where second derivatives are needed")


def _backward(ctx: Any, grads: Grads) -> list[torch.Tensor | None]:
    plan: Plan = ctx.plan
    saved = ctx.saved_tensors
    values = dict(zip(plan.kept, saved))
    in_a, in_b = plan.counts
    at, out = in_a + in_b, 0
    found: list[torch.Tensor | None] = [None] * len(plan.mask)
    factors: list[torch.Tensor | None] = []
    for i, (part, wanted) in enumerate(zip(plan.launch.parts, plan.wanted)):
        rows, cols = ctx.extents or _extents(plan, ctx.shapes, i)
        of_part = PartBackward(part, rows, cols, plan.launch.backend)
        inputs, outputs = range(at, at + len(part.inputs)), range(out, out + len(part.outputs))
        of_part.keep(part.inputs, [values.get(j) for j in inputs])
        of_part.keep(part.outputs, [values.get(len(plan.mask) + j) for j in outputs])
        gradients = of_part.gradients(wanted, [grads[j] for j in outputs])
        factors += [gradients.get(name) for name in part.accumulators]
        for j, name in zip(inputs, part.input_names):
            if name in gradients:
                found[j] = gradients[name].reshape(ctx.shapes[j])
        at, out = inputs.stop, outputs.stop
    if in_a:
        into = iter(saved[len(plan.kept):])
        products = Products(plan, [values.get(j) for j in range(in_a)], [values.get(in_a + j) for j in range(in_b)],
                            [None if d is None else d.to(ctx.dtype) for d in factors],
                            [next(into) if adds else None for adds in ctx.adds])
        found[:in_a] = products.by_a(ctx.shapes)
        found[in_a:in_a + in_b] = products.by_b()
    return found


def _extents(plan: Plan, shapes: list[torch.Size], part: int) -> tuple[int, int]:
    launch, in_a = plan.launch, plan.counts[0]
    rows = rows_of(shapes[part if launch.a_view == "concat" else 0])
    return rows, shapes[in_a + (part if launch.b_view == "concat" else 0)][1]
