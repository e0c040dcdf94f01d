"""The backward of a call of gemm or elementwise. No gradient is typed here: an elementwise pass runs the derived program of
each part, whose d_acc are what the products for A and B take as a factor."""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Sequence

import torch

from ..errors import NotImplementedError
from .launch import Launch, launch_of, rows_of, split
from .part import PartPlan, as_matrix
from .products import Products

Mask = tuple[bool, ...]
Grads = Sequence["torch.Tensor | None"]


class Place(NamedTuple):
    """A part of a call, and where among all inputs, then outputs, what it keeps and wants is."""

    plan: PartPlan
    kept: tuple[tuple[str, str, int], ...]
    """Names and layouts of operands."""
    wanted: tuple[tuple[str, int], ...]
    """Names of inputs."""
    outputs: slice
    """Among the outputs alone."""


class Plan:
    """What is fixed about the backward of a call.

    launch: stores what the backward reads, too; of an elementwise pass its one part. counts: matrices of A and of B. mask: of
    all inputs, A, B, then operands: whether a gradient is wanted. turned: matrices of B are given as (N, K)."""

    def __init__(self, launch: Launch, counts: tuple[int, int], mask: Mask, turned: bool) -> None:
        wanted = [_wanted(launch, i, counts, mask) for i in range(len(launch.parts))]
        storing = tuple([part.storing(names) for part, names in zip(launch.parts, wanted)])
        self.launch = launch if storing == launch.parts else launch_of(launch.a_view, launch.b_view, storing, launch.backend)
        self.counts, self.mask, self.turned = counts, mask, turned
        self.places = _places(self.launch, counts, mask, wanted)
        in_a, in_b = counts
        of_a, of_b = mask[:in_a], mask[in_a:in_a + in_b]
        self.products = Products(launch, of_a, of_b, turned) if in_a else None
        kept = {position for place in self.places for *_, position in place.kept}
        kept.update(range(in_a, in_a + in_b) if any(of_a) else ())
        kept.update(range(in_a) if any(of_b) else ())
        self.kept = tuple(sorted(kept))
        """Positions among inputs, then outputs, of what is saved: what the backward reads when all outputs have a gradient."""
        names = [(part, name) for part in storing for name in part.output_names]
        self.silent = tuple([i for i, (part, name) in enumerate(names) if name not in part.smooth])
        """Outputs without a gradient."""
        self.values = len(mask) + len(names)

    def extents(self, shapes: Sequence[torch.Size], part: int) -> tuple[int, int]:
        """Rows and columns of a part of a product."""
        rows = rows_of(shapes[part if self.launch.a_view == "concat" else 0])
        return rows, shapes[self.counts[0] + (part if self.launch.b_view == "concat" else 0)][0 if self.turned else 1]


@functools.lru_cache(maxsize=4096)
def plan_of(launch: Launch, counts: tuple[int, int], mask: Mask, turned: bool = False) -> Plan:
    """The plan for the gradients by the inputs in `mask`. Errors: those of Derived.storing."""
    return Plan(launch, counts, mask, turned)


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


def _places(launch: Launch, counts: tuple[int, int], mask: Mask, wanted: list[tuple[str, ...]]) -> tuple[Place, ...]:
    places = []
    at, out = sum(counts), 0
    for part, names in zip(launch.parts, wanted):
        plan = PartPlan(part, names, launch.backend)
        kept = (*[(name, layout, at + i) for name, layout, i in plan.kept_inputs],
                *[(name, layout, len(mask) + out + i) for name, layout, i in plan.kept_outputs])
        inputs = tuple([(name, i) for i, name in enumerate(part.input_names, at) if name in names])
        places.append(Place(plan, kept, inputs, slice(out, out + len(part.outputs))))
        at, out = at + len(part.inputs), out + len(part.outputs)
    return tuple(places)


class Call(NamedTuple):
    """What an autograd context keeps of a call beside what it saves. extents: rows and columns of an elementwise pass. into:
    for each matrix of B, what its gradient is added to, or None; or nothing. Those are not saved: autograd would refuse what
    was added to since, and hooks of saved tensors would hand out copies."""

    plan: Plan
    shapes: list[torch.Size]
    dtype: torch.dtype
    extents: tuple[int, int] | None
    into: Grads


def save(ctx: Any, plan: Plan, inputs: Grads, outputs: list[torch.Tensor], extents: tuple[int, int] | None = None,
         main_grads: Grads = ()) -> None:
    """Keeps what `backward` reads in an autograd context. main_grads: for each matrix of B, in its shape, what its gradient is
    added to, or None; or nothing."""
    every = (*inputs, *outputs)
    ctx.save_for_backward(*[every[i] for i in plan.kept])
    ctx.call = Call(plan, [tensor.shape for tensor in inputs], inputs[0].dtype, extents, main_grads)
    ctx.set_materialize_grads(False)
    if plan.silent:
        ctx.mark_non_differentiable(*[outputs[i] for i in plan.silent])


def backward(ctx: Any, grads: Grads) -> list[torch.Tensor | None]:
    """The gradients by all inputs of a call, A, B, then operands; None where none is wanted or found."""
    return only_once(_backward, ctx, grads)


def only_once(backward: Callable[..., Grads], *arguments: Any) -> Grads:
    """The gradients that a backward gives, recorded by nothing; where autograd would record them, they refuse to be
    differentiated."""
    if not torch.is_grad_enabled():
        return backward(*arguments)
    with torch.no_grad():
        found = backward(*arguments)
    return [None if gradient is None else _Once.apply(gradient.detach().requires_grad_()) for gradient in found]


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
    plan, shapes, dtype, extents, into = ctx.call
    values: list[torch.Tensor | None] = [None] * plan.values
    for position, tensor in zip(plan.kept, ctx.saved_tensors):
        values[position] = tensor
    found: list[torch.Tensor | None] = [None] * len(plan.mask)
    factors: list[torch.Tensor | None] = []
    for i, place in enumerate(plan.places):
        rows, cols = extents or plan.extents(shapes, i)
        kept = {name: as_matrix(layout, values[position], rows) for name, layout, position in place.kept}
        made = place.plan.gradients(rows, cols, kept, grads[place.outputs])
        factors += [made.get(name) for name in place.plan.part.accumulators]
        for name, position in place.wanted:
            found[position] = made.get(name)
    if plan.products is not None:
        in_a, in_b = plan.counts
        plan.products.run([m if m is None or m.dim() == 2 else m.flatten(0, -2) for m in values[:in_a]],
                          values[in_a:in_a + in_b],
                          [d if d is None or d.dtype is dtype else d.to(dtype) for d in factors], into, found)
    return [gradient if gradient is None or gradient.shape == shape else gradient.reshape(shape)
            for gradient, shape in zip(found, shapes)]
