"""Functions that torch.compile runs while it traces, and whose results it takes as constants."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, NoReturn

import torch

from ..errors import Error, TypeError


def constant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of plain values remember its results, and torch.compile take them as they are."""
    remembered = functools.cache(function)

    @torch.compiler.assume_constant_result
    def traced(*values: Any) -> Any:
        return remembered(*[float.fromhex(value[1]) if type(value) is tuple else value for value in values])

    @functools.wraps(function)
    def call(*values: Any) -> Any:
        if torch.compiler.is_compiling():
            return traced(*[("float", value.hex()) if type(value) is float else settled(value) for value in values])
        try:
            return remembered(*values)
        except Error:
            raise
        except Exception as error:
            _refuse(function, values, error)

    return call


def _refuse(function: Callable[..., Any], values: tuple, error: Exception) -> NoReturn:
    given = inspect.signature(function).bind(*values).arguments
    options = ", ".join(f"{name}={value!r}" for name, value in given.items())
    raise TypeError(f"{function.__name__}: options are {options}, expected plain numbers and names: one has another "
                    "type") from error


def settled(value: Any) -> Any:
    """A value as the constant it is: torch.compile keeps an integer open as long as it can, but for a key of a dict."""
    return list({value: None})[0] if type(value) is int else value
