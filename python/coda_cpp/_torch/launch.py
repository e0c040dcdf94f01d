"""Calls as the core takes them: several matrices as one factor, a program for each part of the output."""

from __future__ import annotations

import functools
import itertools
import weakref
from typing import Any, Sequence

import torch

from .. import _core
from .derived import Derived, derived_of_text

_TORCH_DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class Launch:
    """What is fixed about a call of gemm, or of an elementwise pass, which has no views; tensors come as lists: the matrices
    of A, those of B as (K, N), and the inputs of all programs, in order. A view is 'single', 'pair', 'concat' or
    'concat_k'."""

    def __init__(self, a_view: str, b_view: str, parts: tuple[Derived, ...], backend: str = "") -> None:
        self.a_view, self.b_view = a_view, b_view
        self.parts = parts
        self.backend = backend
        self.texts = [part.text for part in parts]
        self._core = _core.Launch(a_view, b_view, [part.program for part in parts], backend) if a_view else None
        self.number = next(_numbers)
        _launches[self.number] = self

    def run(self, a: Sequence[torch.Tensor], b: Sequence[torch.Tensor], operands: Sequence[torch.Tensor]) -> list:
        """The outputs of all parts, in order, by the core; records nothing."""
        return self._core.run(a, b, operands)

    def fake(self, a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Empty tensors like the outputs."""
        batch = list(a[0].shape[:-1]) if self.a_view != "concat" else []
        made = []
        for i, part in enumerate(self.parts):
            rows = rows_of(a[i if self.a_view == "concat" else 0].shape)
            cols = b[i if self.b_view == "concat" else 0].shape[1]
            made += outputs_like(part, rows, cols, batch if len(batch) > 1 else [], a[0])
        return made


# torch.compile knows a launch by its number: constant functions take plain values alone.
_launches: weakref.WeakValueDictionary[int, Launch] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def launch_numbered(number: int) -> Launch:
    """The launch of that number."""
    return _launches[number]


@functools.lru_cache(maxsize=4096)
def launch_of(a_view: str, b_view: str, parts: tuple[Derived, ...], backend: str) -> Launch:
    """The launch of these, made once."""
    return Launch(a_view, b_view, parts, backend)


def rows_of(shape: torch.Size) -> int:
    """Rows of a matrix with any leading dimensions."""
    rows = 1
    for extent in shape[:-1]:
        rows = rows * extent
    return rows


def split(operands: Sequence[Any], parts: Sequence[Derived]) -> list[Sequence[Any]]:
    """The operands of each part."""
    if len(parts) == 1:
        return [operands]
    ends = list(itertools.accumulate(len(part.inputs) for part in parts))
    return [operands[start:end] for start, end in zip([0, *ends], ends)]


def run_elementwise(part: Derived, operands: Sequence[torch.Tensor], rows: int, cols: int, backend: str) -> list:
    """The outputs of a program without accumulator, by the core; records nothing."""
    return _core.elementwise(part.program, dict(zip(part.input_names, operands)), (rows, cols), backend)


def fake_elementwise(part: Derived, operands: Sequence[torch.Tensor], rows: int, cols: int) -> list[torch.Tensor]:
    """Empty tensors like those outputs."""
    tiles = [tensor for operand, tensor in zip(part.inputs, operands) if operand.shape == "tile"]
    batch = next((list(tile.shape[:-1]) for tile in tiles if tile.dim() > 2), [])
    floating = [tensor for tensor in [*tiles, *operands] if tensor.is_floating_point()]
    like = floating[0] if floating else operands[0].new_empty((), dtype=torch.float32)
    return outputs_like(part, rows, cols, batch, like)


def outputs_like(part: Derived, rows: int, cols: int, batch: list[int], like: torch.Tensor) -> list[torch.Tensor]:
    """Empty tensors as the core makes outputs: `batch`, if any, in the place of the rows, and the dtype of `like` where the
    program declares none."""
    made = []
    for operand in part.outputs:
        shape = _shape(operand, rows, cols)
        if batch and operand.shape in ("tile", "col"):
            shape = [*batch, *shape[1:]]
        dtype = _TORCH_DTYPES[operand.dtype.name] if operand.dtype is not None else like.dtype
        made.append(like.new_empty(shape, dtype=torch.float32 if operand.partials is not None else dtype))
    return made


def _shape(operand: _core.Operand, rows: int, cols: int) -> list[int]:
    partials, pairing = operand.partials, operand.pairing
    if partials is not None:
        width = partials.width
        return [rows, -(-cols // width)] if partials.axis == "row" else [-(-rows // width), cols]
    if pairing is not None:
        cols = cols // pairing.head * (pairing.width // 2)
    return {"tile": [rows, cols], "row": [cols], "col": [rows], "scalar": []}[operand.shape]


def launch_of_texts(a_view: str, b_view: str, texts: Sequence[str], backend: str) -> Launch:
    """The launch of programs given as text, as the ops take them."""
    return launch_of(a_view, b_view, tuple([derived_of_text(text) for text in texts]), backend)
