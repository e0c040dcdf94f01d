"""coda_cpp.gemm and elementwise on torch tensors that something watches: autograd, autocast, a compiler, a mode."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

import torch

from .. import errors
from ..epilogue import Epilogue, epilogue_numbered
from ..gemm import Segment, shared_among
from . import ops, record, route  # noqa: F401 (ops: registers them)
from .derived import Derived, derived_of, result_types
from .launch import Launch, launch_of, rows_of
from .options import NUMBER

Tensors = Sequence[torch.Tensor]
REFUSED = object()


def is_watched(values: Iterable[Any]) -> bool:
    """Whether autograd, autocast, a compiler or a mode is to know of a call with these arguments."""
    if torch.compiler.is_compiling() or route.has_modes() or torch._C._is_any_autocast_enabled():
        return True
    records = torch.is_grad_enabled()
    for value in values:
        if isinstance(value, torch.Tensor) and (type(value) not in route.PLAIN or records and value.requires_grad):
            return True
    return False


def gemm(a_view: str, a: Tensors, b_view: str, b: Tensors, segments: Sequence[Segment], shared: dict[str, Any],
         has_own: bool, backend: str) -> Any:
    """The outputs of each segment, alone or as a named tuple, of a call that is watched; REFUSED where the core is to say
    what does not fit, or can write the outputs it was given. shared: operands of all segments, where segments are a list
    (`has_own`) of those that have them."""
    launch = _launch(a_view, b_view, backend, [segment.epilogue for segment in segments])
    given = [{**(shared_among(shared, part.names) if has_own else shared), **segment.operands}
             for part, segment in zip(launch.parts, segments)]
    is_recorded = _is_recorded([*a, *b, *_inputs(launch.parts, given)])
    for name, matrix in [("A", matrix) for matrix in a] + [("B", matrix) for matrix in b]:
        if not isinstance(matrix, torch.Tensor):
            if is_recorded:
                raise errors.TypeError(f"gemm: {name} is a {type(matrix).__name__}, expected a torch tensor, as other "
                                       "arguments are, one of which requires grad: convert it with torch.from_numpy")
            return REFUSED
    operands = _operands("gemm", launch.parts, given, a[0], is_recorded)
    if operands is None:
        return REFUSED
    made = record.gemm(launch, a, b, operands)
    results, at = [], 0
    for part in launch.parts:
        results.append(_result(part, made[at:at + len(part.outputs)]))
        at += len(part.outputs)
    return results


def elementwise(epilogue: Any, given: dict[str, Any], shape: tuple[int, int] | None, backend: str) -> Any:
    """The outputs, alone or as a named tuple; REFUSED likewise."""
    launch = _launch("", "", backend, [epilogue])
    part = launch.parts[0]
    inputs = _inputs(launch.parts, [given])
    if not inputs:
        return REFUSED
    operands = _operands("elementwise", launch.parts, [given], inputs[0], _is_recorded(inputs))
    if operands is None:
        return REFUSED
    tiles = [tensor for is_whole, tensor in zip(part.whole_tiles, operands) if is_whole]
    if shape is None and not tiles:
        raise errors.ValueError(f"elementwise: no tile of program '{part.name}' tells the number of rows and columns, expected "
                                "one, or shape=(M, N), where the call is recorded: pass shape")
    rows, cols = shape if shape is not None else (rows_of(tiles[0].shape), tiles[0].shape[-1])
    return _result(part, record.elementwise(launch, operands, rows, cols))


def count_writes(outputs: Iterable[Any]) -> None:
    """Makes autograd know that torch tensors among these were written."""
    for tensor in outputs:
        if isinstance(tensor, torch.Tensor) and not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def _launch(a_view: str, b_view: str, backend: str, epilogues: Sequence[Any]) -> Launch:
    return _launch_of(a_view, b_view, backend, *[("epilogue", e.number) if isinstance(e, Epilogue) else e for e in epilogues])


@torch.compiler.assume_constant_result
def _launch_of(a_view: str, b_view: str, backend: str, *epilogues: Any) -> Launch:
    """epilogues: programs, names, and Epilogues by their number."""
    call = "gemm" if a_view else "elementwise"
    found = [epilogue_numbered(given[1]) if isinstance(given, tuple) else given for given in epilogues]
    return launch_of(a_view, b_view, tuple([derived_of(epilogue, call) for epilogue in found]), backend)


def _result(part: Derived, outputs: Sequence[torch.Tensor]) -> Any:
    return outputs[0] if len(outputs) == 1 else result_types[part.number](*outputs)


def _inputs(parts: Sequence[Derived], given: Sequence[dict[str, Any]]) -> list[torch.Tensor]:
    """The tensors among the inputs of all parts."""
    return [named[name] for part, named in zip(parts, given) for name in part.input_names
            if isinstance(named.get(name), torch.Tensor)]


def _is_recorded(tensors: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any([getattr(tensor, "requires_grad", False) for tensor in tensors])


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
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, NUMBER):
        return torch.full((), value, dtype=torch.float32, device=like.device)
    raise errors.TypeError(f"{call}: operand '{name}' is a {type(value).__name__}, expected a torch tensor, as the others are: "
                           "convert it with torch.from_numpy")
