"""gemm and elementwise on numpy arrays, torch tensors and whatever speaks DLPack; on a GPU, gemm on torch tensors."""

from __future__ import annotations

import collections
import contextlib
import functools
from typing import Any, Callable, Iterable, Iterator, NamedTuple

from . import _core, epilogues
from .epilogue import Epilogue
from .errors import TypeError, ValueError


class Segment(NamedTuple):
    """An epilogue and operands for one part of a concat factor; made by :func:`segment`."""

    epilogue: Any
    operands: dict[str, Any]


def segment(epilogue: Any, /, **operands: Any) -> Segment:
    """An epilogue with operands of its own, for one part of a concat factor."""
    if not isinstance(epilogue, (_core.Program, Epilogue, str)):
        as_program(epilogue, "segment")  # raises
    return Segment(epilogue, operands)


class Factor:
    """Several matrices as one factor: what pair, concat and concat_k make. view: 'pair', 'concat' or 'concat_k'."""

    def __init__(self, view: str, parts: tuple[Any, ...]) -> None:
        self.view = view
        self.parts = parts

    def __len__(self) -> int:
        return len(self.parts)


def pair(first: Any, second: Any) -> Factor:
    """Two (K, N) matrices as B, giving two accumulators: gate and up."""
    return Factor("pair", (first, second))


def concat(*parts: Any) -> Factor:
    """Matrices joined along N as B, or along M as A; each has its own program and operands: q, k and v."""
    return Factor("concat", parts)


def concat_k(*parts: Any) -> Factor:
    """Matrices joined along K, A and B alike: their products are summed."""
    return Factor("concat_k", parts)


#: What the core makes of several matrices, by view.
JOIN = {"pair": _core.pair, "concat": _core.concat, "concat_k": _core.concat_k}


def _joined(factor: Any) -> Any:
    """A factor as the core takes it."""
    return JOIN[factor.view](*factor.parts) if isinstance(factor, Factor) else factor


def _views(factor: Any) -> tuple[str, tuple[Any, ...]]:
    return (factor.view, factor.parts) if isinstance(factor, Factor) else ("single", (factor,))


def gemm(a: Any, b: Any, epilogue: Any = "identity", /, *, backend: str | None = None, **operands: Any) -> Any:
    """a @ b with an epilogue on each output tile.

    a: (..., M, K), leading dimensions taken as rows; b: (K, N), so a checkpoint's weight (N, K) is passed as weight.T;
    both f32, bf16 or f16 (f64 by the reference backend). b may be pair(gate, up), concat(q, k, v) or concat_k(...).
    epilogue: a Program, an @epilogue function, or a name of the library; with a concat, a list of segment(...), one
    for each part. operands: the program's tensors by name: Tile (M, N), Row (N,), Col (M,), Scalar a number.

    Outputs that are not given are made, in the dtype the program declares, else a's (partials in f32), in a's
    framework; outputs given are written in place. Returns one output alone, several as a named tuple in the program's
    order; with a concat, a tuple of these.

    On a GPU (torch CUDA tensors, a Hopper GPU): a and b bf16 or f16; runs on torch's current stream; the first call of
    a kind compiles a kernel, in about a second, and keeps it on disk.

    Torch tensors that require grad are recorded for autograd, by the backward that coda derives; outputs cannot be given
    then. docs/functional.md has torch.compile and autocast.

    Raises ValueError, TypeError, IndexError and NotImplementedError, all before anything is written; DeviceError and
    OutOfMemoryError on a GPU.
    """
    (a_view, left), (b_view, right) = _views(a), _views(b)
    if entry := _torch_entry((*left, *right), epilogue, operands):
        several, parts = _parts(b if _is_concat(b) else a, epilogue)
        results = entry.gemm(a_view, left, b_view, right, parts, operands, _has_own(epilogue), backend or "")
        if results is not entry.REFUSED:
            return tuple(results) if several else results[0]
    segments, several = _segments(b if _is_concat(b) else a, epilogue, operands)
    outputs = _core.gemm(_joined(a), _joined(b), segments, backend or "")
    for (_, given), made in zip(segments, outputs):
        _tell_autograd(made, given)
    results = [_result(program, made) for (program, _), made in zip(segments, outputs)]
    return tuple(results) if several else results[0]


class Plan:
    """A call of gemm made ready: kernel compiled and loaded, outputs made. :func:`prepare` makes it; calling it runs.

    It reads and writes the same tensors each time, so it can be captured in a CUDA graph; autograd counts a run as a write
    in place, and refuses a backward that kept an output of the run before.
    """

    def __init__(self, prepared: _core.Prepared, segments: list, several: bool) -> None:
        self._prepared = prepared
        results = [_result(program, made) for (program, _), made in zip(segments, prepared._outputs)]
        self.outputs = tuple(results) if several else results[0]
        self._written = [tensor for made in prepared._outputs for tensor in made]
        _load_entry(self._written)

    def __call__(self, *, stream: int | None = None, workspace: Any = None) -> Any:
        """Queues the call and returns its outputs, as gemm does. stream: a CUstream's address, None for torch's current
        one. workspace: a tensor of at least `workspace_bytes` bytes on the same GPU, which it may use until it ends."""
        if not (stream is None or isinstance(stream, int) and stream >= 0):
            raise TypeError(f"Plan: argument 'stream' is {stream!r}, expected a CUstream's address, as the cuda_stream of a "
                            "torch.cuda.Stream, or None")
        if not (workspace is None or hasattr(workspace, "data_ptr")):
            raise TypeError(f"Plan: argument 'workspace' is a {type(workspace).__name__}, expected a torch tensor on the GPU")
        address, size = (workspace.data_ptr(), workspace.nbytes) if workspace is not None else (0, 0)
        self._prepared._run(stream, address, size)
        if _entry is not None:
            _entry.count_writes(self._written)
        return self.outputs

    @property
    def schedule(self) -> str | None:
        """The schedule it runs with, as text; None on the CPU."""
        return self._prepared.schedule

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory a run takes; 0 where every operand is read as it lies."""
        return self._prepared.workspace_bytes


def prepare(a: Any, b: Any, epilogue: Any = "identity", /, *, backend: str | None = None, schedule: str | None = None,
            **operands: Any) -> Plan:
    """Makes a call of gemm ready without running it: arguments and errors as gemm's. Before a CUDA graph is captured,
    before the first request is served. schedule: one of :func:`candidates`; None: the tuned or the likeliest one."""
    segments, several = _segments(b if _is_concat(b) else a, epilogue, operands)
    return Plan(_core.prepare(_joined(a), _joined(b), segments, schedule or "", backend or ""), segments, several)


def candidates(a: Any, b: Any, epilogue: Any = "identity", /, **operands: Any) -> list[tuple[str, str]]:
    """(schedule, reason) of each schedule worth timing for a call of gemm on a GPU, the likeliest first."""
    segments, _ = _segments(b if _is_concat(b) else a, epilogue, operands)
    return _core.candidates(_joined(a), _joined(b), segments)


class Timing(NamedTuple):
    """A schedule that :func:`tune` tried: its median time, its ratio to the fastest in the same rounds, why it was tried."""

    schedule: str
    milliseconds: float
    ratio: float
    reason: str


def tune(a: Any, b: Any, epilogue: Any = "identity", /, *, rounds: int = 30, record: bool = True,
         progress: Callable[[str, int, int], None] | None = None, **operands: Any) -> list[Timing]:
    """Times the candidates of a call of gemm on the GPU and keeps the fastest for later calls with the same program, N, K
    and an M up to the next power of two, in this process and, where the cache may be written, in all. Fastest first.

    Takes a second or two; outputs are not touched. progress(stage, done, total) is called as it goes on.
    """
    segments, _ = _segments(b if _is_concat(b) else a, epilogue, operands)
    return [Timing(*row) for row in _core.tune(_joined(a), _joined(b), segments, rounds, record, progress)]


@contextlib.contextmanager
def tuning(*, rounds: int = 30, progress: Callable[[str, int, int], None] | None = None) -> Iterator[None]:
    """Inside, a product that runs on a GPU for the first time is tuned before, in every thread, as :func:`tune` does it,
    unless a choice is recorded for it: a training step or a request inside tunes all of its products, of blocks too.

    Each takes a second or two, once a machine. One that a CUDA graph captures is not tuned, nor, with a warning, one
    whose outputs' copies find no memory.
    """
    if rounds < 1:
        raise ValueError(f"tuning: got {rounds} rounds, expected 1 or more")
    switch = _core.Tuning()
    switch.begin(rounds, progress)
    try:
        yield
    finally:
        switch.end()


def elementwise(epilogue: Any, /, *, shape: tuple[int, int] | None = None, backend: str | None = None,
                **operands: Any) -> Any:
    """Runs an epilogue without accumulator. Its extents come from its tiles, else its other operands, else `shape`.

    Outputs and errors as gemm's; outputs take the dtype and framework of the first tile.
    """
    if shape is not None and (not isinstance(shape, (tuple, list)) or len(shape) != 2):
        raise ValueError(f"elementwise: argument 'shape' is {shape}, expected (M, N)")
    if entry := _torch_entry(operands.values(), epilogue, {}):
        result = entry.elementwise(epilogue, operands, shape, backend or "")
        if result is not entry.REFUSED:
            return result
    program = as_program(epilogue, "elementwise")
    outputs = _core.elementwise(program, operands, shape, backend or "")
    _tell_autograd(outputs, operands)
    return _result(program, outputs)


def _tell_autograd(outputs: list[Any], given: dict[str, Any]) -> None:
    """Counts what was written into outputs that were given, as torch's in-place ops do: a backward that kept one refuses it."""
    if _entry is not None and given:
        _entry.count_writes([tensor for tensor in outputs if any([tensor is value for value in given.values()])])


def as_program(epilogue: Any, call: str) -> _core.Program:
    """The Program an epilogue argument stands for. Raises TypeError, and ValueError for an unknown name."""
    if isinstance(epilogue, _core.Program):
        return epilogue
    if isinstance(epilogue, Epilogue):
        return epilogue.program
    if isinstance(epilogue, str):
        return _named_program(epilogue, call)
    raise TypeError(f"{call}: argument 'epilogue' is a {type(epilogue).__name__}, expected a Program, a function "
                    "decorated with @coda_cpp.epilogue, or a name such as 'bias_gelu'")


@functools.cache
def _named_program(name: str, call: str) -> _core.Program:
    makers = {plain: getattr(epilogues, plain)
              for plain in ("identity", "bias", "scale", "residual", "sigmoid", "residual_rms", "rms_entry", "lse")}
    makers |= {f"bias_{activation}": functools.partial(epilogues.bias, activation)
               for activation in _core.activation_names()}
    makers |= {gate: functools.partial(epilogues.gated, gate) for gate in _core.gate_names()}
    if name in makers:
        return makers[name]()
    if name in epilogues.__all__ and name != "library":
        raise ValueError(f"{call}: epilogue '{name}' has options, expected coda_cpp.epilogues.{name}(...)")
    raise ValueError(f"{call}: epilogue '{name}' is not in the library, expected one of {', '.join(sorted(makers))}, or "
                     "a program of coda_cpp.epilogues")


def _is_concat(factor: Any) -> bool:
    return isinstance(factor, Factor) and factor.view == "concat"


_entry: Any = None  # coda_cpp._torch.entry, once a torch tensor has been seen


def _torch_entry(tensors: Iterable[Any], epilogue: Any, operands: dict[str, Any]) -> Any:
    """The module that makes a call which torch watches: autograd, autocast, a compiler. None where it does not."""
    given = [*tensors, *operands.values()]
    if isinstance(epilogue, (list, tuple)):
        given += [value for part in epilogue if isinstance(part, Segment) for value in part.operands.values()]
    _load_entry(given)
    return _entry if _entry is not None and _entry.is_watched(given) else None


def _load_entry(given: Iterable[Any]) -> None:
    """Sets `_entry` where there is a torch tensor among the given."""
    global _entry
    if _entry is not None:
        return
    needs = [tensor.requires_grad for tensor in given if hasattr(tensor, "requires_grad")]
    if not needs:
        return
    try:
        from ._torch import entry
    except ImportError:  # a torch too old for it: coda runs, and refuses what would be recorded
        if any(needs):
            raise
        return
    _entry = entry


def _has_own(epilogue: Any) -> bool:
    """Whether it is a list of segments."""
    return isinstance(epilogue, (list, tuple)) and not isinstance(epilogue, Segment)


def _parts(factor: Any, epilogue: Any) -> tuple[bool, list[Segment]]:
    """Whether a call has several segments, and them."""
    if _has_own(epilogue):
        return True, [part if isinstance(part, Segment) else segment(part) for part in epilogue]
    return _is_concat(factor), [Segment(epilogue, {})] * (len(factor) if _is_concat(factor) else 1)


def _segments(factor: Any, epilogue: Any, shared: dict[str, Any]) -> tuple[list[tuple[_core.Program, dict]], bool]:
    """(program, operands) of each segment, and whether the call is one of several."""
    several, segments = _parts(factor, epilogue)
    programs = [as_program(part.epilogue, "gemm") for part in segments]
    if _has_own(epilogue) and shared:
        names = [{operand.name for operand in program.operands} for program in programs]
        return [(program, shared_among(shared, known) | part.operands)
                for program, known, part in zip(programs, names, segments)], several
    return [(program, shared | part.operands) for program, part in zip(programs, segments)], several


def shared_among(shared: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Of the keywords of a call with a list of segments those a segment has."""
    return {name: tensor for name, tensor in shared.items() if name in names}


def _result(program: _core.Program, outputs: list[Any]) -> Any:
    if len(outputs) == 1:
        return outputs[0]
    names = tuple(operand.name for operand in program.operands if operand.role != "in")
    return result_type(program.name, names)._make(outputs)


@functools.lru_cache(maxsize=1024)
def result_type(program: str, names: tuple[str, ...]) -> Any:
    """The named tuple of a program's outputs."""
    return collections.namedtuple(f"{program}_outputs", names, rename=True)
