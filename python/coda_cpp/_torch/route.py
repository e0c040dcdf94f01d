"""Which way a call takes: straight to the core, or as a torch.library op that compilers and modes can see."""

from __future__ import annotations

from typing import Iterable, Sequence

import torch

from .derived import Derived
from .launch import Launch, run_elementwise

Tensors = Sequence[torch.Tensor]

PLAIN = (torch.Tensor, torch.nn.Parameter)
_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._functorch.peek_interpreter_stack


def is_plain(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether nothing but autograd watches: no compiler, no dispatch mode (fake tensors, selective checkpointing), no
    transform of torch.func, no subclass of Tensor."""
    if torch.compiler.is_compiling() or has_modes():
        return False
    for tensor in tensors:
        if type(tensor) not in PLAIN:
            return False
    return True


def has_modes() -> bool:
    """Whether a dispatch mode or a transform of torch.func is on."""
    return _modes() > 0 or _transforms() is not None


def gemm(launch: Launch, a: Tensors, b: Tensors, operands: Tensors = ()) -> list[torch.Tensor]:
    """The outputs of a launch; the core's way records nothing, the op's what grad mode asks for."""
    return launch.run(a, b, operands) if is_plain((*a, *b, *operands)) else gemm_op(launch, a, b, operands)


def gemm_op(launch: Launch, a: Tensors, b: Tensors, operands: Tensors,
            main_grads: Sequence[torch.Tensor | None] = ()) -> list[torch.Tensor]:
    """The outputs by the op. main_grads: for each matrix of B, in its shape, what its gradient is added to, or None."""
    return torch.ops.coda.gemm(list(a), list(b), list(operands), [into for into in main_grads if into is not None],
                               launch.a_view, launch.b_view, launch.texts, launch.backend)


def elementwise(part: Derived, operands: Tensors, rows: int, cols: int, backend: str) -> list[torch.Tensor]:
    """The outputs of a program without accumulator."""
    if is_plain(operands):
        return run_elementwise(part, operands, rows, cols, backend)
    return torch.ops.coda.elementwise(list(operands), part.text, rows, cols, backend)


def add_products(launch: Launch, into: Tensors, a: Tensors, b: Tensors) -> None:
    """Adds the product of each part to a tensor; every program of the launch is `accumulated`'s."""
    if is_plain((*into, *a, *b)):
        launch.run(a, b, into)
        return
    torch.ops.coda.add_products(list(into), list(a), list(b), launch.a_view, launch.b_view, launch.backend)
