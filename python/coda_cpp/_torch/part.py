"""The backward of one program of a call: an elementwise pass, and the sums it leaves."""

from __future__ import annotations

from typing import Sequence

import torch

from .. import _core
from ..errors import NotImplementedError
from . import route
from .derived import Derived, Step, derived

_MOST_PARTIALS = 64  # a load finishes no more


class PartBackward:
    """One part of a call, rows x cols, and the values of its forward that were kept, as matrices."""

    def __init__(self, part: Derived, rows: int, cols: int, backend: str) -> None:
        self.part = part
        self.rows, self.cols = rows, cols
        self.backend = backend
        self.values: dict[str, torch.Tensor] = {}

    def keep(self, operands: Sequence[_core.Operand], tensors: Sequence[torch.Tensor | None]) -> None:
        """Takes inputs or outputs of the forward; None for those not kept."""
        for operand, tensor in zip(operands, tensors):
            if tensor is not None:
                self.values[operand.name] = self._flat(operand, tensor)

    def gradients(self, wanted: tuple[str, ...], grads: Sequence[torch.Tensor | None]) -> dict[str, torch.Tensor]:
        """The gradients by accumulators (rows, cols) and inputs, as matrices, of the gradients by all outputs."""
        cotangents = {operand.name: self._cotangent(operand, grad) for operand, grad in zip(self.part.outputs, grads)
                      if grad is not None}
        if not cotangents:
            return {}
        step = self.part.step(wanted, tuple(name for name in self.part.smooth if name in cotangents))
        if not step.kept <= self.values.keys():
            # Without some cotangents another way is shorter, by values that were not kept.
            self._fill(cotangents)
            step = self.part.step(wanted, self.part.smooth)
        found = {name: cotangents[output] for name, output in step.passed.items()}
        return found | self._computed(step, cotangents) if step.backward is not None else found

    def _computed(self, step: Step, cotangents: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        backward = step.backward
        known = self.values | {f"d_{name}": cotangent for name, cotangent in cotangents.items()}
        made = self._run(derived(backward.program), known)
        outputs = {operand.name: operand for operand in backward.program.operands}
        return {gradient.of: self._finished(gradient, outputs[gradient.output], made) for gradient in backward.gradients}

    def _run(self, program: Derived, known: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        operands = [_few(operand, known[operand.name]) for operand in program.inputs]
        made = route.elementwise(program, operands, self.rows, self.cols, self.backend)
        return dict(zip(program.output_names, made))

    def _finished(self, gradient: _core.Gradient, output: _core.Operand, made: dict[str, torch.Tensor]) -> torch.Tensor:
        """A gradient with the sums that the program leaves; partials in a fixed order."""
        value = made[gradient.output]
        if gradient.finish is not None:
            return self._spread(gradient.of, self._run(derived(gradient.finish), self.values | made)[f"d_{gradient.of}"])
        if output.partials is not None:
            value = value.sum(1 if output.partials.axis == "row" else 0)
        if gradient.period:
            value = value.reshape(-1, gradient.period).sum(0)
        return value.sum() if gradient.sum_rows else value

    def _spread(self, name: str, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient by each of the partials an operand came as, of that by the finished reduction."""
        partials = self.values[name]
        spec = self.part.inputs[self.part.input_names.index(name)].partials
        axis = 1 if spec.axis == "row" else 0
        gradient = gradient.unsqueeze(axis)
        return gradient.expand(partials.shape) if spec.op == "sum" else gradient * torch.softmax(partials, axis)

    def _cotangent(self, operand: _core.Operand, grad: torch.Tensor) -> torch.Tensor:
        if operand.partials is None:
            return self._flat(operand, grad)
        spec, axis = operand.partials, -1 if operand.partials.axis == "row" else 0
        is_one = grad.shape[axis] == 1 or grad.numel() == 0 or (spec.op == "sum" and grad.stride(axis) == 0)
        if not is_one:
            raise NotImplementedError(
                f"gemm: program '{self.part.program.name}': output '{operand.name}' has a gradient for each of its "
                f"{grad.shape[axis]} partials, expected one for their {_FINISHED[spec.op]}: use nothing of the output but "
                f"out.{operand.name}.sum({axis}), once; a logsumexp needs a partial_width that leaves one partial")
        grad = grad.select(axis, 0) if grad.numel() else grad.sum(axis)
        return grad.reshape(self.rows) if axis == -1 else grad

    def _flat(self, operand: _core.Operand, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor whose leading dimensions are rows, as a matrix or vector."""
        if operand.shape == "tile" or (operand.partials is not None and operand.partials.axis == "row"):
            return tensor if tensor.dim() == 2 else tensor.reshape(self.rows, tensor.shape[-1])
        if operand.shape == "col" and tensor.dim() > 1:
            return tensor.reshape(self.rows)
        return tensor

    def _fill(self, cotangents: dict[str, torch.Tensor]) -> None:
        like = next(iter(cotangents.values()))
        shapes = {"tile": (self.rows, self.cols), "row": (self.cols,), "col": (self.rows,), "scalar": ()}
        for operand in self.part.outputs:
            if operand.name in self.part.smooth and operand.name not in cotangents:
                cotangents[operand.name] = like.new_zeros(shapes[operand.shape])


_FINISHED = {"sum": "sum", "lse": "logsumexp", "max": "maximum"}


def _few(operand: _core.Operand, tensor: torch.Tensor) -> torch.Tensor:
    """Partials, or one for each row or column where there are more than a load finishes."""
    if operand.partials is None:
        return tensor
    axis = 1 if operand.partials.axis == "row" else 0
    if tensor.shape[axis] <= _MOST_PARTIALS:
        return tensor
    return tensor.sum(axis, True) if operand.partials.op == "sum" else torch.logsumexp(tensor, axis, True)
