"""Which way a call takes: straight to the core, or as a torch.library op that compilers and modes can see."""

from __future__ import annotations

from typing import Iterable, Sequence

import torch
from torch.autograd import forward_ad

from ..errors import NotImplementedError
from .derived import Derived
from .launch import Launch, run_elementwise

Tensors = Sequence[torch.Tensor]

PLAIN = (torch.Tensor, torch.nn.Parameter)
_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._functorch.peek_interpreter_stack
_FUNCTIONALIZE = torch._C._functorch.TransformType.Functionalize


def is_plain(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether nothing but autograd watches: no compiler, no dispatch mode (fake tensors, selective checkpointing), no
    subclass of Tensor. Errors: those of refuse_transforms."""
    if torch.compiler.is_compiling() or has_modes():
        return False
    for tensor in tensors:
        if type(tensor) not in PLAIN:
            return False
    return True


def has_modes() -> bool:
    """Whether a dispatch mode is on, or torch functionalizes. Errors: those of refuse_transforms."""
    refuse_transforms()
    return _modes() > 0 or _transforms() is not None


def refuse_transforms() -> None:
    """Raises NotImplementedError in a transform of torch.func, but for functionalization, and where forward-mode derivatives
    are taken: those of an op without a rule for them would be zeros, in silence. Not for a compiler to trace."""
    transform = _transforms()
    if (transform is not None and transform.key() != _FUNCTIONALIZE) or forward_ad._current_level >= 0:
        raise NotImplementedError(
            "coda_cpp: a call is made in a transform of torch.func or under forward-mode differentiation, expected reverse "
            "mode alone: coda has no rules for vmap and jvp; take gradients by backward() or torch.autograd.grad")


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
