"""coda's torch.library ops, with fake and autograd registration. A program travels as its printed text, its identity; the
backward of an op is made of the ops themselves.

    coda::gemm(a, b, operands, main_grads, a_view, b_view, programs, backend) -> outputs of all programs
    coda::elementwise(operands, program, rows, cols, backend) -> outputs
    coda::linear_cross_entropy(x, weight, targets, main_grads, ignore_index, mean, d_x, d_weight)
        -> loss, count of a mean, gradients of the sum
    coda::add_products(into, a, b, a_view, b_view, backend): into += products, in place

a: the matrices of A, (..., K); b: those of B, (K, N); a view says how they are one factor: single, pair, concat or
concat_k. operands: the inputs of all programs, in order. main_grads: nothing, or what the gradient by each matrix of B that
requires grad is added to.
"""

from __future__ import annotations

from typing import Any, Sequence

import torch

from . import chunks, gradients, loss
from .derived import derived_of_text
from .launch import fake_elementwise, launch_of_texts, run_elementwise
from .products import accumulated, plain

Tensors = Sequence[torch.Tensor]


@torch.library.custom_op("coda::gemm", mutates_args=(), schema=(
    "(Tensor[] a, Tensor[] b, Tensor[] operands, Tensor[] main_grads, str a_view, str b_view, str[] programs, str backend) "
    "-> Tensor[]"))
def gemm(a: Tensors, b: Tensors, operands: Tensors, main_grads: Tensors, a_view: str, b_view: str, programs: Sequence[str],
         backend: str) -> list[torch.Tensor]:
    return launch_of_texts(a_view, b_view, programs, backend).run(a, b, operands)


@gemm.register_fake
def _(a, b, operands, main_grads, a_view, b_view, programs, backend):
    return launch_of_texts(a_view, b_view, programs, backend).fake(a, b)


def _save_gemm(ctx: Any, inputs: tuple, output: list[torch.Tensor]) -> None:
    a, b, operands, main_grads, a_view, b_view, programs, backend = inputs
    every = (*a, *b, *operands)
    plan = gradients.plan_of(launch_of_texts(a_view, b_view, programs, backend), (len(a), len(b)),
                             tuple(tensor.requires_grad for tensor in every))
    given = iter(main_grads)
    into = [next(given) if tensor.requires_grad else None for tensor in b] if main_grads else ()
    gradients.save(ctx, plan, every, output, main_grads=into)
    ctx.main_grads = len(main_grads)


def _gemm_backward(ctx: Any, grads: list) -> tuple:
    found = gradients.backward(ctx, grads)
    in_a, in_b = ctx.call.plan.counts
    return found[:in_a], found[in_a:in_a + in_b], found[in_a + in_b:], [None] * ctx.main_grads, None, None, None, None


gemm.register_autograd(_gemm_backward, setup_context=_save_gemm)


@torch.library.custom_op("coda::elementwise", mutates_args=(), schema=(
    "(Tensor[] operands, str program, SymInt rows, SymInt cols, str backend) -> Tensor[]"))
def elementwise(operands: Tensors, program: str, rows: int, cols: int, backend: str) -> list[torch.Tensor]:
    return run_elementwise(derived_of_text(program), operands, rows, cols, backend)


@elementwise.register_fake
def _(operands, program, rows, cols, backend):
    return fake_elementwise(derived_of_text(program), operands, rows, cols)


def _save_elementwise(ctx: Any, inputs: tuple, output: list[torch.Tensor]) -> None:
    operands, program, rows, cols, backend = inputs
    launch = launch_of_texts("", "", [program], backend)
    plan = gradients.plan_of(launch, (0, 0), tuple(tensor.requires_grad for tensor in operands))
    gradients.save(ctx, plan, operands, output, extents=(rows, cols))


def _elementwise_backward(ctx: Any, grads: list) -> tuple:
    return gradients.backward(ctx, grads), None, None, None, None


elementwise.register_autograd(_elementwise_backward, setup_context=_save_elementwise)


@torch.library.custom_op("coda::add_products", mutates_args=("into",), schema=(
    "(Tensor(a!)[] into, Tensor[] a, Tensor[] b, str a_view, str b_view, str backend) -> ()"))
def add_products(into: Tensors, a: Tensors, b: Tensors, a_view: str, b_view: str, backend: str) -> None:
    plain(a_view, b_view, len(into), backend, accumulated()).run(a, b, into)


@add_products.register_fake
def _(into, a, b, a_view, b_view, backend):
    return None


@torch.library.custom_op("coda::linear_cross_entropy", mutates_args=(), schema=(
    "(Tensor x, Tensor weight, Tensor targets, Tensor[] main_grads, int ignore_index, bool mean, bool d_x, bool d_weight) "
    "-> (Tensor, Tensor, Tensor, Tensor)"))
def linear_cross_entropy(x: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, main_grads: Tensors,
                         *how: Any) -> tuple:
    return chunks.loss_of(x, weight, targets, main_grads, chunks.How(*how))


@linear_cross_entropy.register_fake
def _(x, weight, targets, main_grads, ignore_index, mean, d_x, d_weight):
    number = x.new_empty((), dtype=torch.float32)
    by_weight = chunks.weight_gradient_dtype(weight, main_grads) if d_weight else weight.dtype
    return (number, torch.empty_like(number), x.new_empty(x.shape if d_x else (0,)),
            weight.new_empty(weight.shape if d_weight else (0,), dtype=by_weight))


def _save_loss(ctx: Any, inputs: tuple, output: tuple) -> None:
    loss.save(ctx, chunks.How(*inputs[4:]), inputs[0].dtype, output[1:], inputs[3])
    ctx.mark_non_differentiable(*output[1:])
    ctx.main_grads = len(inputs[3])


def _loss_backward(ctx: Any, grad: torch.Tensor, *_: Any) -> tuple:
    return *loss.backward(ctx, grad), None, [None] * ctx.main_grads, None, None, None, None


linear_cross_entropy.register_autograd(_loss_backward, setup_context=_save_loss)
