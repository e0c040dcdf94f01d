"""coda's torch.library ops, with fake and autograd registration. A program travels as its printed text, its identity; the
backward of an op is made of the ops themselves.

    coda::gemm(a, b, operands, main_grads, a_view, b_view, programs, backend) -> outputs of all programs
    coda::elementwise(operands, program, rows, cols, backend) -> outputs
    coda::add_products(into, a, b, a_view, b_view, backend): into += products, in place

a: the matrices of A, (..., K); b: those of B, (K, N); a view says how they are one factor: single, pair, concat or
concat_k. operands: the inputs of all programs, in order. main_grads: nothing, or for each matrix of B what its gradient is
added to.
"""

from __future__ import annotations

from typing import Any, Sequence

import torch

from . import gradients
from .derived import derived_of_text
from .launch import Launch, fake_elementwise, launch_of_texts, run_elementwise
from .products import accumulated, plain

Tensors = Sequence[torch.Tensor]


def _launch(a_view: str, b_view: str, programs: Sequence[str], backend: str) -> Launch:
    return launch_of_texts(a_view, b_view, tuple(programs), backend)


@torch.library.custom_op("coda::gemm", mutates_args=(), schema=(
    "(Tensor[] a, Tensor[] b, Tensor[] operands, Tensor[] main_grads, str a_view, str b_view, str[] programs, str backend) "
    "-> Tensor[]"))
def gemm(a: Tensors, b: Tensors, operands: Tensors, main_grads: Tensors, a_view: str, b_view: str, programs: Sequence[str],
         backend: str) -> list[torch.Tensor]:
    return _launch(a_view, b_view, programs, backend).run(a, b, operands)


@gemm.register_fake
def _(a, b, operands, main_grads, a_view, b_view, programs, backend):
    return _launch(a_view, b_view, programs, backend).fake(a, b)


def _save_gemm(ctx: Any, inputs: tuple, output: list[torch.Tensor]) -> None:
    a, b, operands, main_grads, a_view, b_view, programs, backend = inputs
    every = (*a, *b, *operands)
    plan = gradients.plan_of(_launch(a_view, b_view, programs, backend), (len(a), len(b)),
                             tuple(tensor.requires_grad for tensor in every))
    gradients.save(ctx, plan, every, output, main_grads=main_grads)


def _gemm_backward(ctx: Any, grads: list) -> tuple:
    found = gradients.backward(ctx, grads)
    in_a, in_b = ctx.plan.counts
    return found[:in_a], found[in_a:in_a + in_b], found[in_a + in_b:], [None] * len(ctx.adds), None, None, None, None


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
    launch = Launch("", "", (derived_of_text(program),), backend)
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
