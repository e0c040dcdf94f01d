"""Segments as torch custom ops: functional, with fake tensors and autograd, so that they go through torch.compile in one
graph, through activation checkpoints and through autograd as any op of torch does."""

# No postponed annotations here, and typing's names: schemas are read from them, by older versions of torch too.
import dataclasses
from typing import List, Optional

import torch

from .. import training
from .._torch import route
from .._torch.gradients import only_once
from . import segment as pieces


def _plan(names: str, *words) -> pieces.Plan:
    return pieces.Plan(tuple(names.split(",")), *words)


def _contiguous(tensor):
    return None if tensor is None else tensor.contiguous()


@torch.library.custom_op("coda::segment", mutates_args=())
def segment_op(attention: Optional[torch.Tensor], x: torch.Tensor, weights: List[torch.Tensor],
               turns: List[torch.Tensor], names: str, eps: float, gate: str, head: int, policy: str, angles: str, scale: float,
               main_grad: bool) -> List[torch.Tensor]:
    """Results and then what the backward keeps, in the order of the Plan; see segment.py."""
    plan = _plan(names, eps, gate, head, policy, angles, scale)
    found = pieces.forward(plan, _contiguous(attention), x.contiguous(), dict(zip(plan.names, weights)), turns)
    return list(found.values())


@segment_op.register_fake
def _(attention, x, weights, turns, names, eps, gate, head, policy, angles, scale, main_grad):
    plan = _plan(names, eps, gate, head, policy, angles, scale)
    shapes = plan.shapes(x.shape[0], x.shape[1], dict(zip(plan.names, weights)))
    return [x.new_empty(shape, dtype=torch.float32 if is_sum else x.dtype) for shape, is_sum in shapes.values()]


def _empty_like(tensor):
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _run_backward(plan, gradients, attention, x, saved, weights, turns, wanted, main):
    """[gradient of each of `wanted`]; those by weights in `main` are added there and left out."""
    named = dict(zip(plan.names, weights))
    fresh = {name: _empty_like(named[name]) for name in wanted if name in named and name not in main}
    into = {name: training.Fresh(tensor) for name, tensor in fresh.items()} | main
    given = {name: gradient.contiguous() for name, gradient in zip(plan.results, gradients) if gradient is not None}
    found = fresh | dict(zip(("attention", "x"), pieces.backward(
        plan, given, attention, x, dict(zip((*plan.results, *plan.kept), saved)), named, turns, into, "attention" in wanted)))
    return [found[name] for name in wanted if name not in main]


@torch.library.custom_op("coda::segment_backward", mutates_args=())
def segment_backward_op(gradients: List[Optional[torch.Tensor]], attention: Optional[torch.Tensor], x: Optional[torch.Tensor],
                        saved: List[torch.Tensor], weights: List[torch.Tensor], turns: List[torch.Tensor], names: str,
                        eps: float, gate: str, head: int, policy: str, angles: str, scale: float,
                        wanted: str) -> List[torch.Tensor]:
    """The gradients by `wanted`, names of weights, 'attention' and 'x', from those by the results, some of them None."""
    plan = _plan(names, eps, gate, head, policy, angles, scale)
    return _run_backward(plan, gradients, _contiguous(attention), _contiguous(x), saved, weights, turns, wanted.split(","), {})


@segment_backward_op.register_fake
def _(gradients, attention, x, saved, weights, turns, names, eps, gate, head, policy, angles, scale, wanted):
    plan = _plan(names, eps, gate, head, policy, angles, scale)
    like = dict(zip((*plan.results, *plan.kept), saved)) | dict(zip(plan.names, weights)) | {"attention": attention}
    like["x"] = x if x is not None else like["x"]
    return [_empty_like(like[name]) for name in wanted.split(",")]


def _setup_segment(ctx, inputs, output):
    attention, x, weights, turns, *ctx.words, ctx.main_grad = inputs
    results = len(_plan(*ctx.words).results)
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[results:])
    ctx.save_for_backward(attention, x if attention is None else None, *weights, *turns, *output)
    ctx.counts = len(weights), len(turns)
    # Not those saved: under hooks of saved tensors, and so of checkpoints, they come back as copies without attributes.
    ctx.parameters = weights if ctx.main_grad else ()


def _segment_backward(ctx, gradients):
    attention, x, *rest = ctx.saved_tensors
    of_weights, of_turns = ctx.counts
    weights, turns, saved = rest[:of_weights], rest[of_weights:of_weights + of_turns], rest[of_weights + of_turns:]
    plan = _plan(*ctx.words)
    needs_attention, needs_x, needs_weights = ctx.needs_input_grad[:3]
    wanted = [name for name, needed in zip(plan.names, needs_weights) if needed]
    wanted += ["attention"] * needs_attention + ["x"] * needs_x
    main = _main_gradients(plan, ctx.parameters, wanted)
    gradients = list(gradients[:len(plan.results)])
    if main:
        made = only_once(_run_backward, plan, gradients, _contiguous(attention), _contiguous(x), saved, weights, turns, wanted,
                         main)
    else:
        made = only_once(segment_backward_op, gradients, attention, x, saved, weights, turns, *ctx.words, ",".join(wanted))
    found = dict(zip((name for name in wanted if name not in main), made))
    by_weights = [found.get(name) for name in plan.names]
    return found.get("attention"), found.get("x"), by_weights, [None] * of_turns, *(None for _ in ctx.words), None


def _main_gradients(plan, weights, wanted):
    """{name: main_grad} of the wanted weights that have one."""
    return {name: weight.main_grad for name, weight in zip(plan.names, weights)
            if name in wanted and getattr(weight, "main_grad", None) is not None}


segment_op.register_autograd(_segment_backward, setup_context=_setup_segment)


def segment(plan, attention, x, weights, turns=(), main_grad=False):
    """{name: tensor} of plan.results. weights: by name, in the order of plan.names; main_grad: gradients by parameters
    that have a `main_grad` are added to it, and their own `grad` stays None. Raises NotImplementedError in transforms."""
    if not torch.compiler.is_compiling():
        route.refuse_transforms()  # an op goes into them, too, and forgets their derivatives
    policy = plan.policy if torch.is_grad_enabled() else "none"
    found = segment_op(attention, x, [weights[name] for name in plan.names], list(turns), ",".join(plan.names), plan.eps,
                       plan.gate, plan.head, policy, plan.angles, plan.scale, main_grad)
    plan = dataclasses.replace(plan, policy=policy)
    return dict(zip(plan.results, found))
