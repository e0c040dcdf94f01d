"""Programs with their derived backwards. Nothing here touches a tensor."""

from __future__ import annotations

import functools
import itertools
import math
import re
from typing import Any, Iterable

from .. import _core, errors
from ..differentiate import Backward, differentiate, with_saved
from ..gemm import as_program, result_type

_COL_PARTIAL_ROWS = 64  # rows a column's partial covers: what every backend reduces


class Step:
    """A backward: a program for the gradients that have to be computed, and those that are a cotangent as it arrives.

    passed: name -> the output whose cotangent its gradient is. kept: inputs and outputs of the forward that it reads."""

    def __init__(self, backward: Backward | None, passed: dict[str, str]) -> None:
        self.backward = backward
        self.passed = passed
        self.kept = frozenset() if backward is None else _read(backward)


def _read(backward: Backward) -> frozenset[str]:
    finish = {operand.name for gradient in backward.gradients if gradient.finish is not None
              for operand in gradient.finish.operands if operand.role == "in"}
    return frozenset({*backward.saved, *backward.inputs, *finish} - {g.output for g in backward.gradients})


# The named tuples of outputs, by Derived.number: torch.compile makes only what it finds by a global name.
result_types: dict[int, Any] = {}
_numbers = itertools.count()


class Derived:
    """A program and what autograd asks of it. :func:`derived` gives the one of a program."""

    def __init__(self, program: _core.Program, smooth: tuple[str, ...] | None = None) -> None:
        self.program = program
        self.name = program.name
        self.text = program.text
        self.names = tuple(operand.name for operand in program.operands)
        self.accumulators = tuple(f"acc{i}" for i in range(program.accumulators))
        self.inputs = tuple(operand for operand in program.operands if operand.role != "out")
        """All that a call must give."""
        self.input_names = tuple(operand.name for operand in self.inputs)
        self.whole_tiles = tuple([o.shape == "tile" and o.period == 0 and o.pairing is None for o in self.inputs])
        """Of each input, whether it is (M, N)."""
        self.reads_partials = any(operand.partials is not None for operand in self.inputs)
        self.outputs = tuple(operand for operand in program.operands if operand.role != "in")
        self.output_names = tuple(operand.name for operand in self.outputs)
        self.smooth = smooth if smooth is not None else tuple(o.name for o in self.outputs if _is_smooth(o))
        """Outputs that may have a cotangent."""
        self.number = next(_numbers)
        result_types[self.number] = result_type(program.name, self.output_names)
        self._storing: dict[tuple[str, ...], Derived] = {}
        self._steps: dict[tuple[tuple[str, ...], tuple[str, ...]], Step] = {}
        self._reached: dict[tuple[str, tuple[str, ...]], bool] = {}

    def storing(self, wanted: tuple[str, ...]) -> Derived:
        """The program that also stores what the gradients by `wanted` (accumulators and inputs) need. Raises TypeError
        and NotImplementedError for an input that has no gradient, such as a table of cosines."""
        if wanted not in self._storing:
            reached = self._reached_of(wanted, self.smooth)
            values = _core.values_to_save(self.program, reached, self._cotangents(self.smooth)) if reached else []
            self._storing[wanted] = Derived(with_saved(self.program, values), self.smooth) if values else self
        return self._storing[wanted]

    def step(self, wanted: tuple[str, ...], given: tuple[str, ...]) -> Step:
        """The backward for the gradients by `wanted` where the outputs `given` have a cotangent. Gradients that no such
        output depends on are left out. The program must store what they need."""
        key = wanted, given
        if key not in self._steps:
            self._steps[key] = self._derive(self._reached_of(wanted, given), given)
        return self._steps[key]

    def _derive(self, reached: list[str], given: tuple[str, ...]) -> Step:
        if not reached:
            return Step(None, {})
        backward = self._differentiate(reached, given)
        passed = _passed(backward)
        rest = [name for name in reached if name not in passed]
        if passed and rest:
            backward = self._differentiate(rest, given)
        return Step(backward if rest else None, passed)

    def _differentiate(self, wrt: list[str], given: tuple[str, ...]) -> Backward:
        width = math.lcm(64, max(self.program.column_granule, 1))  # whole heads
        return differentiate(self.program, wrt, self._cotangents(given), partial_width=width,
                             partial_rows=_COL_PARTIAL_ROWS)

    def _cotangents(self, given: Iterable[str]) -> list[_core.Cotangent]:
        return [_core.Cotangent.load(name) if name in given else _core.Cotangent.none(name) for name in self.output_names]

    def _reached_of(self, wanted: Iterable[str], given: tuple[str, ...]) -> list[str]:
        return [name for name in wanted if self._is_reached(name, given)]

    def _is_reached(self, name: str, given: tuple[str, ...]) -> bool:
        """Whether an output `given` depends on it smoothly: all a ValueError of this request can mean."""
        key = name, given
        if key not in self._reached:
            try:
                _core.values_to_save(self.program, [name], self._cotangents(given))
                self._reached[key] = True
            except errors.ValueError:
                self._reached[key] = False
        return self._reached[key]


def _is_smooth(output: _core.Operand) -> bool:
    """Not a maximum, nor an accumulator, which is stored for a backward alone."""
    return not (output.partials is not None and output.partials.op == "max") and output.name not in ("acc0", "acc1")


def _passed(backward: Backward) -> dict[str, str]:
    """Gradients that the program only copies from a cotangent, by name: its text says so."""
    text = backward.program.text
    loads = dict(re.findall(r"^  (\w+) = load\((d_\w+)\)$", text, re.MULTILINE))
    stores = {output: value for output, value in re.findall(r"^  store\((\w+), (\w+)\)$", text, re.MULTILINE)}
    tiles = {operand.name for operand in backward.program.operands
             if operand.shape == "tile" and operand.pairing is None and operand.name in backward.cotangents}
    found = {gradient.of: loads.get(stores.get(gradient.output, ""), "") for gradient in backward.gradients}
    return {name: operand.removeprefix("d_") for name, operand in found.items() if operand in tiles}


@functools.lru_cache(maxsize=1024)
def _derived_of(program: _core.Program) -> Derived:
    return Derived(program)


# A program's hash is that of its text, too slow for each call. An entry keeps its program, so that no other has its address.
_by_identity: dict[int, tuple[_core.Program, Derived]] = {}
_MOST = 4096


def derived(program: _core.Program) -> Derived:
    """What belongs to a program, made once."""
    found = _by_identity.get(id(program))
    if found is None:
        if len(_by_identity) >= _MOST:
            _by_identity.clear()
        found = _by_identity[id(program)] = program, _derived_of(program)
    return found[1]


@functools.lru_cache(maxsize=1024)
def derived_of_text(text: str) -> Derived:
    """The same of a program's printed text, its identity."""
    return derived(_core.Program.parse(text))


def derived_of(epilogue: object, call: str) -> Derived:
    """The same of what gemm takes as an epilogue."""
    return derived(as_program(epilogue, call))
