"""What options of a call may be. place: the words of an error before the value."""

from __future__ import annotations

import math
import numbers
from typing import Callable

from ..errors import TypeError, ValueError

#: numpy's too; Python's own types first, which are asked for in less time than abstract ones.
INTEGER, NUMBER = (int, numbers.Integral), (int, float, numbers.Real)


def require_eps(call: str, place: str, eps: object) -> None:
    """Raises TypeError, ValueError."""
    _require_number(call, place, eps, lambda eps: 0 <= eps < math.inf,
                    "a finite number, 0 or above: it is added to a mean square")


def require_base(call: str, place: str, base: object) -> None:
    """Raises TypeError, ValueError."""
    _require_number(call, place, base, lambda base: 0 < base < math.inf, "a finite number above 0, such as 10000")


def _require_number(call: str, place: str, value: object, fits: Callable[[float], bool], expected: str) -> None:
    is_number = isinstance(value, NUMBER)
    if not (is_number and fits(value)):
        raise (ValueError if is_number else TypeError)(f"{call}: {place} {value!r}, expected {expected}")


def require_rotated(call: str, head: object, width: object) -> None:
    """The columns of a head and those of them that turn, 0 for all. Raises TypeError, ValueError."""
    for name, value in (("head", head), ("width", width)):
        if not isinstance(value, INTEGER):
            raise TypeError(f"{call}: argument 'rope' has {name} {value!r}, expected an int")
    if not (head > 0 and 0 <= width <= head and (width or head) % 2 == 0):
        raise ValueError(f"{call}: argument 'rope' has head {head} and width {width}, expected a head above 0 and an even width "
                         "within it, 0 for all of an even head: columns rotate in pairs")
