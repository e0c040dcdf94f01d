"""fp64 throughout: `double()` of a stock model is not, since norms, rotary angles, softmax and the loss compute in fp32
whatever its dtype, which is the size of the errors to be measured."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator

import torch
from torch.overrides import TorchFunctionMode


class Fp64(TorchFunctionMode):
    """A context in which what asks torch for fp32 by name is given fp64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        func = torch.Tensor.double if func is torch.Tensor.float else func
        return func(*map(_in_fp64, args), **{name: _in_fp64(value) for name, value in (kwargs or {}).items()})


@contextlib.contextmanager
def copy_of(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """A copy of a stock model, in fp64 throughout as long as the context lasts."""
    exact = copy.deepcopy(model).double()
    with throughout(exact):
        yield exact


@contextlib.contextmanager
def throughout(model: torch.nn.Module) -> Iterator[None]:
    """A context in which what the modules of `model` ask for in fp32 is given in fp64. It is theirs, not the thread's, so
    that checkpoints are recomputed the same way."""
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            stack.enter_context(replaced(module, "forward", _widened(module.forward)))
        yield


@contextlib.contextmanager
def replaced(holder: object, name: str, value: object) -> Iterator[None]:
    """A context in which an attribute of the object itself is another; where it had none, its class's shows again after."""
    before = vars(holder).get(name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        delattr(holder, name) if before is None else setattr(holder, name, before)


def _in_fp64(argument):
    return torch.float64 if argument is torch.float32 else argument


def _widened(forward: Callable) -> Callable:
    @functools.wraps(forward)
    def run(*args, **kwargs):
        with Fp64():
            return forward(*args, **kwargs)

    return run
