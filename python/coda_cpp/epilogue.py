"""``@coda_cpp.epilogue``: a Python function of (acc, operands...) traced into a Program.

    @coda.epilogue
    def bias_gelu(acc, bias: coda.Row):
        return coda.gelu(acc + bias)

The function runs once, on Values; what it computes with them becomes the program. Parameters named ``acc`` (or
``acc0, acc1`` for a pair) are the accumulators; the others are annotated with their shape. The value it returns is
stored as ``out``; a dict, NamedTuple or dataclass stores several, each under its name. Keyword-only parameters with a
default are options: plain Python values, fixed by :meth:`Epilogue.with_options`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
import sys
import threading
import weakref
from typing import Any, Callable, Iterator, NamedTuple

from . import _core
from .errors import TypeError, ValueError

_tracing = threading.local()


@dataclasses.dataclass(frozen=True)
class Tile:
    """An (M, N) operand. period: column c reads entry c % period; pairing: one entry a column pair."""

    period: int = 0
    pairing: _core.Pairing | None = None
    dtype: Any = None

    def load(self, builder: _core.Builder, name: str) -> _core.Value:
        return builder.load_tile(name, period=self.period, pairing=self.pairing, dtype=self.dtype)


@dataclasses.dataclass(frozen=True)
class Row:
    """An (N,) operand, one number a column. Options as Tile's."""

    period: int = 0
    pairing: _core.Pairing | None = None
    dtype: Any = None

    def load(self, builder: _core.Builder, name: str) -> _core.Value:
        return builder.load_row(name, period=self.period, pairing=self.pairing, dtype=self.dtype)


@dataclasses.dataclass(frozen=True)
class Col:
    """An (M,) operand, one number a row."""

    dtype: Any = None

    def load(self, builder: _core.Builder, name: str) -> _core.Value:
        return builder.load_col(name, dtype=self.dtype)


@dataclasses.dataclass(frozen=True)
class Scalar:
    """One number: a tensor of one element, or a Python number."""

    dtype: Any = None

    def load(self, builder: _core.Builder, name: str) -> _core.Value:
        return builder.load_scalar(name, dtype=self.dtype)


@dataclasses.dataclass(frozen=True)
class Partials:
    """A reduction another program left as partials, finished on load: axis 'row' gives a Col, 'col' a Row."""

    op: str = "sum"
    axis: str = "row"

    def load(self, builder: _core.Builder, name: str) -> _core.Value:
        return builder.load_partials(name, self.op, self.axis)


_SHAPES = (Tile, Row, Col, Scalar, Partials)


class Output(NamedTuple):
    """A value to store with options; made by :func:`output`."""

    value: _core.Value
    dtype: Any
    accumulate: bool


def output(value: _core.Value, *, dtype: Any = None, accumulate: bool = False) -> Output:
    """A returned value stored as `dtype`, or added to what the operand holds (`accumulate`)."""
    return Output(value, dtype, accumulate)


def _builder(call: str) -> _core.Builder:
    builder = getattr(_tracing, "builder", None)
    if builder is None:
        raise ValueError(f"{call}: no function is being traced, expected a call inside an @epilogue function: use "
                         f"Builder.{call} elsewhere")
    return builder


def constant(value: float) -> _core.Value:
    """A number as a Value of the function being traced."""
    return _builder("constant").constant(value)


def row_index() -> _core.Value:
    """The row number of each row (a Col)."""
    return _builder("row_index").row_index()


def col_index(period: int = 0, pairing: _core.Pairing | None = None) -> _core.Value:
    """The column number of each column (a Row), modulo `period` unless 0; with a pairing, the number of the pair."""
    return _builder("col_index").col_index(period, pairing)


class Epilogue:
    """A traced function. Runs through gemm and elementwise; `.program` and `.text` show what was traced."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any] | None = None):
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self._parameters = _read_parameters(function)
        self._options = {p.name: p.default for p in self._parameters if p.kind is p.KEYWORD_ONLY}
        self._options.update(options or {})
        self._with_options: dict[Any, Epilogue] = {}
        self._program: _core.Program | None = None
        self.number = next(_numbers)
        _numbered[self.number] = self

    @property
    def program(self) -> _core.Program:
        """The Program; the function is traced at the first use and never again."""
        if self._program is None:
            self._program = _trace(self.function, self._parameters, self._options)
        return self._program

    @property
    def text(self) -> str:
        """The program's text."""
        return self.program.text

    def with_options(self, **options: Any) -> Epilogue:
        """The epilogue with other values for keyword-only parameters; traced once for each set of values."""
        for name in options:
            if name not in self._options:
                raise ValueError(f"epilogue '{self.__name__}': option '{name}' is none of its keyword-only parameters, "
                                 f"expected {', '.join(map(repr, self._options)) or 'no options'}")
        chosen = {**self._options, **options}
        key = tuple((name, type(value), value) for name, value in chosen.items())
        if key not in self._with_options:
            self._with_options[key] = Epilogue(self.function, chosen)
        return self._with_options[key]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"epilogue '{self.__name__}' is a program, not a function: run it with "
                        f"coda_cpp.gemm(a, b, {self.__name__}, ...), and share code between epilogues by a function "
                        "that is not decorated")

    def __repr__(self) -> str:
        return f"<Epilogue {self.__name__}>"


# torch.compile names an epilogue by its number: its constant functions take plain values alone.
_numbers = itertools.count()
_numbered: weakref.WeakValueDictionary[int, Epilogue] = weakref.WeakValueDictionary()


def epilogue_numbered(number: int) -> Epilogue:
    """The epilogue of that number."""
    return _numbered[number]


def epilogue(function: Callable[..., Any]) -> Epilogue:
    """Turns a function of (acc, operands...) into an epilogue; the module's text tells the rules."""
    return Epilogue(function)


def _read_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    name = function.__name__
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    for parameter in parameters:
        place = f"epilogue '{name}': parameter '{parameter.name}'"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{place} takes any number of arguments, expected one parameter for each operand")
        is_option = parameter.kind is parameter.KEYWORD_ONLY
        if is_option and parameter.default is parameter.empty:
            raise TypeError(f"{place} is an option without a default, expected one: give it the usual value")
        if not is_option and parameter.default is not parameter.empty:
            raise TypeError(f"{place} has a default, expected none: an operand is a tensor; an option stands after *")
        if parameter.name in _ACCUMULATORS and parameter.annotation is not parameter.empty:
            raise TypeError(f"{place} is an accumulator, expected no annotation: give an operand another name")
        if not is_option and _shape_of(parameter) is None and parameter.name not in _ACCUMULATORS:
            raise TypeError(f"{place} has no shape, expected one of coda_cpp.Tile, Row, Col, Scalar or Partials as its "
                            f"annotation: write {parameter.name}: coda_cpp.Row")
    return parameters


_ACCUMULATORS = {"acc": 0, "acc0": 0, "acc1": 1}


def _shape_of(parameter: inspect.Parameter) -> Any:
    annotation = parameter.annotation
    if annotation in _SHAPES:
        return annotation()
    return annotation if isinstance(annotation, _SHAPES) else None


def _trace(function: Callable[..., Any], parameters: list[inspect.Parameter], options: dict[str, Any]) -> _core.Program:
    builder = _core.Builder(function.__name__)
    arguments = []
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY:
            continue
        shape = _shape_of(parameter)
        arguments.append(builder.acc(_ACCUMULATORS[parameter.name]) if shape is None
                         else shape.load(builder, parameter.name))
    with _traced_into(builder):
        result, variables = _call(function, arguments, options)
    outputs = _outputs_of(function.__name__, result)
    _name_values(variables, outputs)
    for name, value in outputs:
        builder.store(name, value.value, dtype=value.dtype, accumulate=value.accumulate)
    return builder.build()


@contextlib.contextmanager
def _traced_into(builder: _core.Builder) -> Iterator[None]:
    outer = getattr(_tracing, "builder", None)
    _tracing.builder = builder
    try:
        yield
    finally:
        _tracing.builder = outer


def _call(function: Callable[..., Any], arguments: list[Any], options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The function's result, and its local variables as it returns."""
    variables: dict[str, Any] = {}

    def watch(frame: Any, event: str, argument: Any) -> None:
        if event == "return" and frame.f_code is function.__code__:
            variables.update(frame.f_locals)

    outer = sys.getprofile()
    sys.setprofile(watch)
    try:
        return function(*arguments, **options), variables
    finally:
        resume = getattr(outer, "enable", None)  # cProfile's profiler is an object, not a function
        resume() if resume else sys.setprofile(outer)


def _name_values(variables: dict[str, Any], outputs: list[tuple[str, Output]]) -> None:
    """Gives values the names of the variables that hold them, and outputs that have none the name they are stored by."""
    values = {name: value for name, value in variables.items() if isinstance(value, _core.Value)}
    held = {value.id for value in values.values()}
    values |= {name: output.value for name, output in outputs if output.value.id not in held and name not in values}
    for name, value in values.items():
        if name in _ACCUMULATORS:
            continue
        with contextlib.suppress(ValueError):  # v0, v1, ... are the names unnamed values print under
            value.named(name)


def _outputs_of(name: str, result: Any) -> list[tuple[str, Output]]:
    if isinstance(result, (_core.Value, Output)):
        named = {"out": result}
    elif isinstance(result, dict):
        named = result
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        named = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    elif isinstance(result, tuple) and hasattr(result, "_asdict"):
        named = result._asdict()
    else:
        raise TypeError(f"epilogue '{name}': returned a {type(result).__name__}, expected a Value, or several as a dict, "
                        "NamedTuple or dataclass: an output needs a name")
    return [(key, _as_output(name, key, value)) for key, value in named.items()]


def _as_output(name: str, key: str, value: Any) -> Output:
    stored = value if isinstance(value, Output) else output(value)
    if not isinstance(stored.value, _core.Value):
        raise TypeError(f"epilogue '{name}': output '{key}' is a {type(stored.value).__name__}, expected a Value: "
                        "write coda_cpp.constant(number) for a number")
    return stored
