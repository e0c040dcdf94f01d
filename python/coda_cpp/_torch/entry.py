"""coda_cpp.gemm and elementwise on torch tensors that something watches: autograd, autocast, a compiler, a mode."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

import torch

from .. import errors
from ..gemm import Segment, shared_among
from . import ops, record, route  # noqa: F401 (ops: registers them)
from .derived import Derived, derived_of, result_types
from .launch import Launch, launch_of, rows_of

Tensors = Sequence[torch.Tensor]
NOT_WATCHED = object()


def gemm(a_view: str, a: Tensors, b_view: str, b: Tensors, segments: Sequence[Segment], shared: dict[str, Any],
         backend: str) -> Any:
    """The outputs of each segment, alone or as a named tuple; NOT_WATCHED where the core can be called as it is, or is to say
    what does not fit. shared: operands of all segments that have them."""
    given = [shared, *[segment.operands for segment in segments]]
    tensors = [matrix for matrix in (*a, *b) if isinstance(matrix, torch.Tensor)] + _tensors(given)
    if not _is_watched(tensors):
        return NOT_WATCHED
    _require_torch("A", a)
    _require_torch("B", b)
    launch = _launch(a_view, b_view, backend, *[segment.epilogue for segment in segments])
    merged = [shared if len(segments) == 1 else shared_among(shared, (*part.input_names, *part.output_names))
              for part in launch.parts]
    operands = _operands("gemm", launch.parts, [names | segment.operands for names, segment in zip(merged, segments)], a[0],
                         _is_recorded(tensors))
    if operands is None:
        return NOT_WATCHED
    made = record.gemm(launch, a, b, operands)
    results, at = [], 0
    for part in launch.parts:
        results.append(_result(part, made[at:at + len(part.outputs)]))
        at += len(part.outputs)
    return results


def elementwise(epilogue: Any, given: dict[str, Any], shape: tuple[int, int] | None, backend: str) -> Any:
    """The outputs, alone or as a named tuple; NOT_WATCHED likewise."""
    tensors = _tensors([given])
    if not _is_watched(tensors):
        return NOT_WATCHED
    launch = _launch("", "", backend, epilogue)
    part = launch.parts[0]
    operands = _operands("elementwise", launch.parts, [given], tensors[0], _is_recorded(tensors))
    if operands is None:
        return NOT_WATCHED
    tiles = [(operand, tensor) for operand, tensor in zip(part.inputs, operands)
             if operand.shape == "tile" and operand.period == 0 and operand.pairing is None]
    if shape is None and not tiles:
        raise errors.ValueError(f"elementwise: no tile of program '{part.program.name}' tells the number of rows and columns, "
                                "expected one, or shape=(M, N), where the call is recorded: pass shape")
    rows, cols = shape if shape is not None else (rows_of(tiles[0][1]), tiles[0][1].shape[-1])
    return _result(part, record.elementwise(launch, operands, rows, cols))


def _require_torch(factor: str, matrices: Sequence[Any]) -> None:
    for matrix in matrices:
        if not isinstance(matrix, torch.Tensor):
            raise errors.TypeError(f"gemm: {factor} is a {type(matrix).__name__}, expected a torch tensor, as other arguments "
                                   "are, which autograd, autocast or a compiler watches: convert it with torch.from_numpy")


@torch.compiler.assume_constant_result
def _launch(a_view: str, b_view: str, backend: str, *epilogues: Any) -> Launch:
    call = "gemm" if a_view else "elementwise"
    return launch_of(a_view, b_view, tuple([derived_of(epilogue, call) for epilogue in epilogues]), backend)


def _result(part: Derived, outputs: Sequence[torch.Tensor]) -> Any:
    return outputs[0] if len(outputs) == 1 else result_types[part.number](*outputs)


def _tensors(given: Iterable[dict[str, Any]]) -> list[torch.Tensor]:
    return [value for operands in given for value in operands.values() if isinstance(value, torch.Tensor)]


def _is_recorded(tensors: Tensors) -> bool:
    return torch.is_grad_enabled() and any([tensor.requires_grad for tensor in tensors])


def _is_watched(tensors: Tensors) -> bool:
    return not route.is_plain(tensors) or torch._C._is_any_autocast_enabled() or _is_recorded(tensors)


def _operands(call: str, parts: Sequence[Derived], given: Sequence[dict[str, Any]], like: torch.Tensor,
              is_recorded: bool) -> list[torch.Tensor] | None:
    """The inputs of all parts, in order; None where one is missing or unknown, which the core words best, and where outputs
    are given that nothing but autocast watches."""
    found: list[torch.Tensor] = []
    for part, named in zip(parts, given):
        named = {name: value for name, value in named.items() if value is not None}
        outputs = [name for name in part.output_names if name in named]
        if outputs:
            _refuse_output(call, outputs[0], is_recorded)
            return None
        if named.keys() != set(part.input_names):
            return None
        found += [_operand(call, name, named[name], like) for name in part.input_names]
    return found


def _refuse_output(call: str, name: str, is_recorded: bool) -> None:
    if is_recorded:
        raise errors.ValueError(
            f"{call}: output '{name}' is given and an input requires grad, expected outputs that {call} makes: autograd does "
            "not see what is written into a tensor; leave it out, or call under torch.no_grad()")
    if torch.compiler.is_compiling() or route.has_modes():
        raise errors.NotImplementedError(
            f"{call}: output '{name}' is given under a compiler or mode of torch, expected outputs that {call} makes: leave it "
            "out")


def _operand(call: str, name: str, value: Any, like: torch.Tensor) -> torch.Tensor:
    if isinstance(value, (int, float)):
        return torch.full((), value, dtype=torch.float32, device=like.device)
    if not isinstance(value, torch.Tensor):
        raise errors.TypeError(f"{call}: operand '{name}' is a {type(value).__name__}, expected a torch tensor, as the others "
                               "are: convert it with torch.from_numpy")
    return value
