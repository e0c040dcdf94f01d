"""differentiate: the backward of a program, derived, as an ordinary program. docs/differentiation.md has the rules.

    forward = coda.with_saved("bias_gelu", ["z"])
    backward = coda.differentiate(forward, ["acc0", "bias"],
                                  [coda.Cotangent.acc("out"), coda.Cotangent.none("z")])
    grads = coda.gemm(d_y, next_weight, backward.program, z=hidden.z)  # grads.d_acc0, grads.d_bias
"""

from __future__ import annotations

import dataclasses
from typing import Any, Iterable

from . import _core
from .errors import TypeError
from .gemm import as_program


@dataclasses.dataclass(frozen=True)
class Backward:
    """What :func:`differentiate` derives: a program, where in it the gradients are found, and what it reads."""

    program: _core.Program
    """Runs through gemm, or through elementwise where it has no accumulator (`program.accumulators`)."""
    gradients: tuple[_core.Gradient, ...]
    """In the order of `wrt`."""
    cotangents: tuple[str, ...]
    """Inputs of the program that cotangents arrive in, and what a computed one is made of: (M, N) for a tile output,
    (M,) or (N,) for one that is a col, a row or stored as partials."""
    saved: tuple[str, ...]
    """Inputs of the program that are outputs of the forward, under the forward's names: keep those tensors."""
    inputs: tuple[str, ...]
    """Inputs of the program that are inputs of the forward, under the forward's names."""


def differentiate(epilogue: Any, /, wrt: Iterable[str], cotangents: Iterable[_core.Cotangent], *,
                  recompute_acc: bool = False, saved: Iterable[str] | None = None, remade: Iterable[str] = (),
                  partial_width: int = 64, partial_rows: int = 0) -> Backward:
    """The program that computes, from the cotangents of the outputs of `epilogue`, the gradients by `wrt`.

    epilogue: what gemm takes: a Program, an @epilogue function, or a name of the library.
    wrt: "acc0", "acc1" (of which the data- and weight-gradient products are made) and names of floating inputs.
    cotangents: how the gradient of the loss by each output arrives: Cotangent.acc, load, computed or none; every output
    is mentioned, and several for one output are summed.
    recompute_acc: the accumulators of the backward are the forward's own, computed again from the same A and B; then no
    cotangent arrives as the accumulator. saved: tile outputs of the forward the backward may load; None: all of them.
    remade: tile outputs of the forward, which was run without keeping them, that the backward writes again.
    partial_width: columns or rows an entry of the partials it stores covers, a multiple of 64. partial_rows: rows, where
    they are not as many as columns.

    Shapes: the gradient by an accumulator or a tile is (M, N). That by a Row is (M / partial_width, N) and that by a Col
    or Scalar (M, N / partial_width), rounded up: partial sums in f32 that remain to be summed along the first or the
    last axis, as Gradient says. Dtypes: as for any program, gradients take gemm's A's dtype, or that of the first tile
    of elementwise; values are fp32 (double by backend="reference") and rounded where they are stored.

    Mathematics: reverse mode, cotangents times Jacobians from the outputs back. An op has its vector-Jacobian product in
    its row of the op table; broadcasts become sums, and sums broadcasts. docs/differentiation.md lists the rules, the
    values of the forward that are needed, and the subgradients of min, max, clamp, abs and relu are documented in their
    rows (src/ir/op_table.cpp).

    Raises ValueError for a wrong name or option, for an output without a cotangent, and for a value that is needed and
    was not stored, which it names (:func:`with_saved` stores it); TypeError for a gradient by integers;
    NotImplementedError for what cannot be derived, naming the node.
    """
    forward = as_program(epilogue, "differentiate")
    given = _cotangents(cotangents)
    allowed = None if saved is None else _names(saved, "differentiate", "saved")
    program, gradients = _core.differentiate(forward, _names(wrt, "differentiate", "wrt"), given,
                                             recompute_acc=recompute_acc, saved=allowed,
                                             remade=_names(remade, "differentiate", "remade"),
                                             partial_width=partial_width, partial_rows=partial_rows)
    return _sorted_inputs(forward, program, gradients)


def with_saved(epilogue: Any, /, values: Iterable[str]) -> _core.Program:
    """The program of `epilogue` (what gemm takes) that stores `values` too, each to an output of its name, (M, N).

    values: Tile values, by the names they have in the program's text, or "acc0" and "acc1". Raises ValueError for a name
    that is no Tile value, or an operand already.
    """
    return _core.with_saved(as_program(epilogue, "with_saved"), _names(values, "with_saved", "values"))


def _names(given: Any, call: str, argument: str) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{call}: argument '{argument}' is a {type(given).__name__}, expected a list of names")
    names = list(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{call}: argument '{argument}' has a {type(name).__name__}, expected names as str")
    return names


def _cotangents(given: Any) -> list[_core.Cotangent]:
    if isinstance(given, _core.Cotangent) or not isinstance(given, Iterable):
        raise TypeError(f"differentiate: argument 'cotangents' is a {type(given).__name__}, expected a list of "
                        "coda_cpp.Cotangent, one for each output")
    cotangents = list(given)
    for cotangent in cotangents:
        if not isinstance(cotangent, _core.Cotangent):
            raise TypeError(f"differentiate: argument 'cotangents' has a {type(cotangent).__name__}, expected "
                            "coda_cpp.Cotangent.acc, .load, .computed or .none of an output")
    return cotangents


def _sorted_inputs(forward: _core.Program, program: _core.Program, gradients: list[_core.Gradient]) -> Backward:
    """The backward with its inputs by where they come from."""
    roles = {operand.name: operand.role for operand in forward.operands}
    read: dict[str, list[str]] = {"cotangents": [], "saved": [], "inputs": []}
    for operand in program.operands:
        if operand.role == "in":
            role = roles.get(operand.name)
            read["cotangents" if role is None else "inputs" if role == "in" else "saved"].append(operand.name)
    return Backward(program, tuple(gradients), **{kind: tuple(names) for kind, names in read.items()})
