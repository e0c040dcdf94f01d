"""Segments as torch custom ops: functional, with fake tensors and autograd, so that they go through torch.compile in one
graph, through activation checkpoints and through autograd as any op of torch does."""

# No postponed annotations here, and typing's names: schemas are read from them, by older versions of torch too.
from typing import List, Optional

import torch

from .. import training
from . import segment as pieces


def _plan(names: str, gate: str, head: int, eps: float, policy: str) -> pieces.Plan:
    return pieces.Plan(tuple(names.split(",")), eps, gate, head, policy)


def _contiguous(tensor):
    return None if tensor is None else tensor.contiguous()


@torch.library.custom_op("coda::segment", mutates_args=())
def segment_op(attention: Optional[torch.Tensor], x: torch.Tensor, weights: List[torch.Tensor], cos: Optional[torch.Tensor],
               sin: Optional[torch.Tensor], names: str, gate: str, head: int, eps: float, policy: str,
               main_grad: bool) -> List[torch.Tensor]:
    """Results and then what the backward keeps, in the order of the Plan; see segment.py."""
    plan = _plan(names, gate, head, eps, policy)
    found = pieces.forward(plan, _contiguous(attention), x.contiguous(), dict(zip(plan.names, weights)), cos, sin)
    return list(found.values())


@segment_op.register_fake
def _(attention, x, weights, cos, sin, names, gate, head, eps, policy, main_grad):
    plan = _plan(names, gate, head, eps, policy)
    shapes = plan.shapes(x.shape[0], x.shape[1], dict(zip(plan.names, weights)))
    return [x.new_empty(shape, dtype=torch.float32 if is_sum else x.dtype) for shape, is_sum in shapes.values()]


def _empty_like(tensor):
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _run_backward(plan, gradients, attention, x, saved, weights, cos, sin, wanted, main):
    """[gradient of each of `wanted`]; those by weights in `main` are added there and left out."""
    named = dict(zip(plan.names, weights))
    fresh = {name: _empty_like(named[name]) for name in wanted if name in named and name not in main}
    into = {name: training.Fresh(tensor) for name, tensor in fresh.items()} | main
    given = {name: gradient.contiguous() for name, gradient in zip(plan.results, gradients) if gradient is not None}
    found = fresh | dict(zip(("attention", "x"), pieces.backward(
        plan, given, attention, x, dict(zip((*plan.results, *plan.kept), saved)), named, cos, sin, into,
        "attention" in wanted)))
    return [found[name] for name in wanted if name not in main]


@torch.library.custom_op("coda::segment_backward", mutates_args=())
def segment_backward_op(gradients: List[Optional[torch.Tensor]], attention: Optional[torch.Tensor], x: Optional[torch.Tensor],
                        saved: List[torch.Tensor], weights: List[torch.Tensor], cos: Optional[torch.Tensor],
                        sin: Optional[torch.Tensor], names: str, gate: str, head: int, eps: float, policy: str,
                        wanted: str) -> List[torch.Tensor]:
    """The gradients by `wanted`, names of weights, 'attention' and 'x', from those by the results, some of them None."""
    return _run_backward(_plan(names, gate, head, eps, policy), gradients, _contiguous(attention), _contiguous(x), saved,
                         weights, cos, sin, wanted.split(","), {})


@segment_backward_op.register_fake
def _(gradients, attention, x, saved, weights, cos, sin, names, gate, head, eps, policy, wanted):
    plan = _plan(names, gate, head, eps, policy)
    like = dict(zip((*plan.results, *plan.kept), saved)) | dict(zip(plan.names, weights)) | {"attention": attention}
    like["x"] = x if x is not None else like["x"]
    return [_empty_like(like[name]) for name in wanted.split(",")]


def _setup_segment(ctx, inputs, output):
    attention, x, weights, cos, sin, *ctx.words, ctx.main_grad = inputs
    results = len(_plan(*ctx.words).results)
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[results:])
    ctx.save_for_backward(attention, x if attention is None else None, cos, sin, *weights, *output)
    ctx.weight_count = len(weights)


def _segment_backward(ctx, gradients):
    attention, x, cos, sin, *rest = ctx.saved_tensors
    weights, saved = rest[:ctx.weight_count], rest[ctx.weight_count:]
    plan = _plan(*ctx.words)
    needs_attention, needs_x, needs_weights = ctx.needs_input_grad[:3]
    wanted = [name for name, needed in zip(plan.names, needs_weights) if needed]
    wanted += ["attention"] * needs_attention + ["x"] * needs_x
    main = _main_gradients(plan, weights, wanted) if ctx.main_grad else {}
    gradients = list(gradients[:len(plan.results)])
    if main:
        made = _run_backward(plan, gradients, _contiguous(attention), _contiguous(x), saved, weights, cos, sin, wanted, main)
    else:
        made = segment_backward_op(gradients, attention, x, saved, weights, cos, sin, *ctx.words, ",".join(wanted))
    found = dict(zip((name for name in wanted if name not in main), made))
    by_weights = [found.get(name) for name in plan.names]
    return found.get("attention"), found.get("x"), by_weights, None, None, *(None for _ in ctx.words), None


def _main_gradients(plan, weights, wanted):
    """{name: main_grad} of the wanted weights that have one."""
    return {name: weight.main_grad for name, weight in zip(plan.names, weights)
            if name in wanted and getattr(weight, "main_grad", None) is not None}


segment_op.register_autograd(_segment_backward, setup_context=_setup_segment)


def segment(plan, attention, x, weights, cos=None, sin=None, main_grad=False):
    """{name: tensor} of plan.results. weights: by name, in the order of plan.names; main_grad: gradients by parameters
    that have a `main_grad` are added to it, and their own `grad` stays None."""
    if not torch.is_grad_enabled():
        plan = pieces.Plan(plan.names, plan.eps, plan.gate, plan.head, "none")
    found = segment_op(attention, x, [weights[name] for name in plan.names], cos, sin, ",".join(plan.names), plan.gate,
                       plan.head, plan.eps, plan.policy, main_grad)
    return dict(zip(plan.results, found))
