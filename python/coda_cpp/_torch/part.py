"""The backward of one program of a call: an elementwise pass, and the sums it leaves."""

from __future__ import annotations

from typing import Sequence

import torch

from .. import _core
from ..errors import NotImplementedError
from . import route
from .derived import Derived, Step, derived

_MOST_PARTIALS = 64  # a load finishes no more

Named = dict[str, torch.Tensor]


class PartPlan:
    """What is fixed about the backward of a program: the gradients wanted, by accumulators and inputs, and for the outputs
    that have a cotangent what makes them."""

    def __init__(self, part: Derived, wanted: tuple[str, ...], backend: str) -> None:
        self.part = part
        self.wanted = wanted
        self.backend = backend
        self.step = part.step(wanted, part.smooth)
        """Of cotangents for all outputs: the one whose values are kept."""
        self.kept_inputs, self.kept_outputs = (
            tuple([(operand.name, _layout(operand), i) for i, operand in enumerate(operands)
                   if operand.name in self.step.kept])
            for operands in (part.inputs, part.outputs))
        """What of the forward is kept: names, layouts and positions."""
        self._outputs = tuple([(operand.name, _layout(operand), None if operand.partials is None else operand)
                               for operand in part.outputs])
        """Names and layouts, and the operands that are stored as partials."""
        self._passes: dict[tuple[bool, ...], Pass] = {}

    def gradients(self, rows: int, cols: int, kept: Named, grads: Sequence[torch.Tensor | None]) -> Named:
        """The gradients by accumulators (rows, cols) and inputs, as matrices, of the gradients by all outputs. kept: of the
        forward."""
        given = tuple([grad is not None for grad in grads])
        chosen = self._passes.get(given)
        if chosen is None:
            chosen = self._passes[given] = self._choose(given)
        cotangents = {name: as_matrix(layout, grad, rows) if in_partials is None else self._finished(in_partials, grad, rows)
                      for (name, layout, in_partials), grad in zip(self._outputs, grads) if grad is not None}
        for operand in chosen.filled:
            cotangents[operand.name] = _zeros(operand, next(iter(cotangents.values())), rows, cols)
        found = {name: cotangents[output] for name, output in chosen.passed}
        return found if chosen.program is None else found | chosen.run(kept, cotangents, rows, cols)

    def _choose(self, given: tuple[bool, ...]) -> Pass:
        names = [name for name, is_given in zip(self.part.output_names, given) if is_given]
        step = self.part.step(self.wanted, tuple([name for name in self.part.smooth if name in names]))
        if step.kept <= self.step.kept:
            return Pass(self.part, step, (), self.backend)
        # Without some cotangents another way is shorter, by values that were not kept: zeros are cotangents, too.
        filled = [operand for operand in self.part.outputs if operand.name in self.part.smooth and operand.name not in names]
        return Pass(self.part, self.step, tuple(filled), self.backend)

    def _finished(self, operand: _core.Operand, grad: torch.Tensor, rows: int) -> torch.Tensor:
        """The gradient by what an output's partials are finished to."""
        spec, axis = operand.partials, -1 if operand.partials.axis == "row" else 0
        is_one = grad.shape[axis] == 1 or grad.numel() == 0 or (spec.op == "sum" and grad.stride(axis) == 0)
        if not is_one:
            raise NotImplementedError(
                f"gemm: program '{self.part.program.name}': output '{operand.name}' has a gradient for each of its "
                f"{grad.shape[axis]} partials, expected one for their {_FINISHED[spec.op]}: use nothing of the output but "
                f"out.{operand.name}.sum({axis}), once; a logsumexp needs a partial_width that leaves one partial")
        grad = grad.select(axis, 0) if grad.numel() else grad.sum(axis)
        return grad.reshape(rows) if axis == -1 else grad


class Pass:
    """A step of a program's backward, made ready: the derived program, and what finishes its gradients. filled: outputs whose
    cotangents are zeros."""

    def __init__(self, part: Derived, step: Step, filled: tuple[_core.Operand, ...], backend: str) -> None:
        self.part = part
        self.filled = filled
        self.backend = backend
        self.passed = tuple(step.passed.items())
        self.program = None
        if step.backward is not None:
            self.program = derived(step.backward.program)
            outputs = {operand.name: operand for operand in self.program.program.operands}
            self.whole, self.summed = [], []
            for gradient in step.backward.gradients:
                if _is_whole(gradient, outputs[gradient.output]):
                    self.whole.append((gradient.of, gradient.output))
                else:
                    self.summed.append((gradient, outputs[gradient.output]))

    def run(self, kept: Named, cotangents: Named, rows: int, cols: int) -> Named:
        """The gradients of cotangents, by the names of outputs, and kept values."""
        known = kept.copy()
        for name, cotangent in cotangents.items():
            known["d_" + name] = cotangent
        made = self._made(self.program, known, rows, cols)
        found = {of: made[output] for of, output in self.whole}
        for gradient, output in self.summed:
            found[gradient.of] = self._finished(gradient, output, known, made, rows, cols)
        return found

    def _made(self, program: Derived, known: Named, rows: int, cols: int) -> Named:
        operands = [known[name] for name in program.input_names]
        if program.reads_partials:
            operands = [_few(operand, tensor) for operand, tensor in zip(program.inputs, operands)]
        return dict(zip(program.output_names, route.elementwise(program, operands, rows, cols, self.backend)))

    def _finished(self, gradient: _core.Gradient, output: _core.Operand, known: Named, made: Named, rows: int,
                  cols: int) -> torch.Tensor:
        """A gradient with the sums that the program leaves; partials in a fixed order."""
        value = made[gradient.output]
        if gradient.finish is not None:
            finished = self._made(derived(gradient.finish), known | made, rows, cols)
            return self._spread(gradient.of, known[gradient.of], finished[f"d_{gradient.of}"])
        if output.partials is not None:
            value = value.sum(1 if output.partials.axis == "row" else 0)
        if gradient.period:
            value = value.reshape(-1, gradient.period).sum(0)
        return value.sum() if gradient.sum_rows else value

    def _spread(self, name: str, partials: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient by each of the partials an operand came as, of that by the finished reduction."""
        spec = self.part.inputs[self.part.input_names.index(name)].partials
        axis = 1 if spec.axis == "row" else 0
        gradient = gradient.unsqueeze(axis)
        return gradient.expand(partials.shape) if spec.op == "sum" else gradient * torch.softmax(partials, axis)


def _layout(operand: _core.Operand) -> str:
    """What :func:`as_matrix` makes of an operand: 'matrix', 'column', or '' for as it is."""
    if operand.partials is not None:
        return "matrix" if operand.partials.axis == "row" else ""
    return {"tile": "matrix", "col": "column"}.get(operand.shape, "")


def as_matrix(layout: str, tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """A tensor whose leading dimensions are rows, as a matrix or vector."""
    if layout == "matrix":
        return tensor if tensor.dim() == 2 else tensor.reshape(rows, tensor.shape[-1])
    return tensor.reshape(rows) if layout == "column" and tensor.dim() > 1 else tensor


def _zeros(operand: _core.Operand, like: torch.Tensor, rows: int, cols: int) -> torch.Tensor:
    shapes = {"tile": (rows, cols), "row": (cols,), "col": (rows,), "scalar": ()}
    return like.new_zeros(shapes[operand.shape])


_FINISHED = {"sum": "sum", "lse": "logsumexp", "max": "maximum"}


def _is_whole(gradient: _core.Gradient, output: _core.Operand) -> bool:
    """Whether the program leaves nothing of a gradient to be summed."""
    return gradient.finish is None and output.partials is None and not gradient.period and not gradient.sum_rows


def _few(operand: _core.Operand, tensor: torch.Tensor) -> torch.Tensor:
    """Partials, or one for each row or column where there are more than a load finishes, or none."""
    if operand.partials is None:
        return tensor
    axis = 1 if operand.partials.axis == "row" else 0
    if 0 < tensor.shape[axis] <= _MOST_PARTIALS:
        return tensor
    return tensor.sum(axis, True) if operand.partials.op == "sum" else torch.logsumexp(tensor, axis, True)
