"""Arguments of the functional API: x and its weights, checked, and what is given for each row."""

from __future__ import annotations

from typing import NamedTuple, NoReturn, Sequence

import torch

from ..errors import Error, TypeError, ValueError
from . import record
from .constants import settled
from .launch import Launch, rows_of, split
from .options import INTEGER

Tensor = torch.Tensor
SIZE = (*INTEGER, torch.SymInt)


class Stack(NamedTuple):
    """How a weight of several matrices, one above the other, divides. parts: their names; sizes: their rows, None for parts of
    one height."""

    parts: tuple[str, ...]
    sizes: Sequence[int] | None = None

    def split(self, call: str, name: str, weight: Tensor) -> Sequence[Tensor]:
        """Views of the parts. Raises TypeError, ValueError for rows that do not divide so."""
        require_tensor(call, name, weight)
        parts, sizes, rows = self.parts, self.sizes, weight.shape[0] if weight.dim() else 0
        if sizes is not None and not (isinstance(sizes, (tuple, list)) and all([isinstance(size, SIZE) for size in sizes])):
            raise TypeError(f"{call}: argument 'sizes' is {sizes!r}, expected a tuple of ints, the rows of {', '.join(parts)}")
        is_even = (rows % len(parts) == 0 if sizes is None
                   else len(sizes) == len(parts) and sum(sizes) == rows and min(sizes) >= 0)
        if weight.dim() == 0 or not is_even:
            raise ValueError(f"{call}: argument '{name}' has {rows} rows, expected those of {', '.join(parts)} stacked"
                             + ("" if sizes is None else f", sizes {list(sizes)}"))
        return weight.split(list(sizes) if sizes is not None else rows // len(parts))


class Factors:
    """x (..., K) and weights (N, K), by their names, of one call. What does not fit is looked for where a call fails, and
    while a compiler traces it: looking takes longer than a launch."""

    def __init__(self, call: str, x: Tensor, weights: dict[str, Tensor], main_grad: bool, stack: Stack | None = None) -> None:
        """stack: how the one weight there is divides into several."""
        self.call = call
        self.given = x
        main_grads = _main_grads(call, weights) if main_grad else ()
        if stack is not None:
            (name, whole), = weights.items()
            weights = dict(zip(stack.parts, stack.split(call, name, whole)))
            main_grads = [part for main in main_grads if main is not None for part in stack.split(call, name, main)]
        self.weights = weights
        self.main_grads = main_grads
        if torch.compiler.is_compiling() or not isinstance(x, torch.Tensor) or x.dim() == 0:
            self.require()
        self.is_vector = x.dim() == 1
        self.x = x.unsqueeze(0) if self.is_vector else x

    @property
    def depth(self) -> int:
        """K; a part of programs, so never a symbol of torch.compile's."""
        extent = self.given.shape[-1]
        return settled(extent) if torch.compiler.is_compiling() else extent

    @property
    def columns(self) -> int:
        """N of the only weight; a part of programs, too. Errors: those of require."""
        weight, = self.weights.values()
        if not isinstance(weight, torch.Tensor) or weight.dim() != 2:
            self.require()
        return weight.shape[0]

    def require(self) -> None:
        """Raises TypeError, ValueError for what does not fit."""
        require_tensor(self.call, "x", self.given)
        if self.given.dim() == 0:
            raise ValueError(f"{self.call}: argument 'x' has shape [], expected (..., K)")
        for name, weight in self.weights.items():
            require_weight(self.call, name, weight, self.given)

    def rows(self, name: str, tensor: Tensor) -> Tensor:
        """A tensor with the leading dimensions of x."""
        require_tensor(self.call, name, tensor)
        tensor = tensor.unsqueeze(0) if self.is_vector else tensor
        if tensor.shape[:-1] != self.x.shape[:-1]:
            raise ValueError(f"{self.call}: argument '{name}' has shape {list(tensor.shape)}, expected leading dimensions "
                             f"{list(self.x.shape[:-1])}, those of 'x'")
        return tensor

    def refuse(self, error: Exception, launch: Launch | None = None, operands: Sequence[Tensor] = ()) -> NoReturn:
        """Raises what does not fit, where a call failed; else the error, gemm's own with the call named. operands: of the
        launch."""
        self.require()
        for part, given in zip(launch.parts, split(operands, launch.parts)) if launch else ():
            for name, operand in zip(part.input_names, given):
                require_tensor(self.call, "norm_weight" if name == "gamma" else name, operand)
        if isinstance(error, Error):
            raise type(error)(f"{self.call}: {error}") from error
        raise error

    def run(self, launch: Launch, operands: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of the product, recorded."""
        try:
            made = record.gemm(launch, (self.x,), tuple(self.weights.values()), operands, self.main_grads, turned=True)
        except Exception as error:
            self.refuse(error, launch, operands)
        return [output.squeeze(0) for output in made] if self.is_vector else made

    def run_pass(self, launch: Launch, operands: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of an elementwise pass over x, recorded; x and they are (1, K) where x was given as a vector."""
        try:
            return record.elementwise(launch, operands, rows_of(self.x.shape), self.depth)
        except Exception as error:
            self.refuse(error, launch, operands)


def require_tensor(call: str, name: str, tensor: object) -> None:
    """Raises TypeError."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{call}: argument '{name}' is a {type(tensor).__name__}, expected a torch tensor")


def require_constant(call: str, name: str, tensor: object) -> None:
    """Raises TypeError for what is no tensor, ValueError for one that requires grad."""
    require_tensor(call, name, tensor)
    if tensor.requires_grad:
        raise ValueError(f"{call}: argument '{name}' requires grad, expected a tensor outside autograd: no gradient by it is "
                         "derived; pass its detach()")


def require_weight(call: str, name: str, weight: Tensor, x: Tensor) -> None:
    """Raises TypeError, ValueError."""
    require_tensor(call, name, weight)
    if weight.dim() != 2 or weight.shape[1] != x.shape[-1]:
        raise ValueError(f"{call}: argument '{name}' has shape {list(weight.shape)}, expected (N, {x.shape[-1]}), as 'x' has "
                         f"shape {list(x.shape)}: a weight is (out, in)")
    if weight.device != x.device:
        raise ValueError(f"{call}: argument '{name}' is on {weight.device}, expected {x.device}, the device of 'x': move it "
                         "there")
    if weight.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"{call}: argument '{name}' has dtype {weight.dtype}, expected {x.dtype}, that of 'x': convert one, or "
                        "use torch.autocast")


def _main_grads(call: str, weights: dict[str, Tensor]) -> list[Tensor | None]:
    """What the gradient by each weight is added to, (N, K); None of a frozen one. Raises TypeError, ValueError."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        require_tensor(call, name, weight)
        if weight.requires_grad:
            main = _main_grad(call, name, weight)
            for other, theirs in found.items():
                if main is theirs:
                    raise ValueError(f"{call}: arguments '{other}' and '{name}' have one .main_grad, expected one each: a "
                                     "product adds to both at once; leave main_grad out where a weight is given twice")
            found[name] = main
    return [found.get(name) for name in weights]


def _main_grad(call: str, name: str, weight: Tensor) -> Tensor:
    main = getattr(weight, "main_grad", None)
    if main is None or main.shape != weight.shape or main.dtype not in (torch.float32, weight.dtype):
        got = "none" if main is None else f"one of shape {list(main.shape)} and {main.dtype}"
        raise ValueError(f"{call}: argument '{name}' has {got} as its .main_grad, expected a tensor of shape "
                         f"{list(weight.shape)} and torch.float32 or the weight's dtype: main_grad=True adds its gradient to "
                         "it")
    return main


def expanded(call: str, name: str, tensor: Tensor, leading: torch.Size, own: int) -> Tensor:
    """A tensor for each row of x: its leading dimensions repeated to those of x, with `own` dimensions behind them."""
    require_constant(call, name, tensor)
    behind = tensor.shape[tensor.dim() - own:] if own else torch.Size()
    try:
        return tensor.expand(*leading, *behind)
    except RuntimeError:
        raise ValueError(f"{call}: argument '{name}' has shape {list(tensor.shape)}, expected one that repeats to "
                         f"{[*leading, *behind]}") from None
