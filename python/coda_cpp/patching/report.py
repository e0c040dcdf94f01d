"""What patch did, and did not."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from ..errors import ValueError
from .main_gradients import MainGradients

_MOST_ROWS = 12


@dataclasses.dataclass
class Report:
    """What :func:`coda_cpp.patch` replaced, and what it left and why. A context manager: undone at exit.

    replaced, skipped: {name of a module: what was done, or why it was left}. calls_left_stock: {reason: calls that went to
    the stock forward for it}, counted while the model runs (not inside torch.compile). modules: those whose forward was
    replaced. main_gradients: the hooks of main_grad=True.
    """

    model: Any
    replaced: dict[str, str] = dataclasses.field(default_factory=dict)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    calls_left_stock: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    modules: list[Any] = dataclasses.field(default_factory=list, repr=False)
    main_gradients: MainGradients | None = dataclasses.field(default=None, repr=False)

    def put(self, name, module, forward, text):
        """Puts a forward on a module."""
        module.forward = forward
        self.modules.append(module)
        self.replaced[name] = text

    def __bool__(self):
        return bool(self.replaced)

    def __str__(self):
        sections = (("replaced", self.replaced.items()), ("left stock", self.skipped.items()),
                    ("calls left stock", [(str(count), reason) for reason, count in self.calls_left_stock.items()]))
        return "\n".join(line for title, rows in sections for line in _section(title, rows))

    def __repr__(self):
        return f"<Report: {len(self.replaced)} replaced, {len(self.skipped)} left stock>"

    def __enter__(self):
        if self.replaced and not self._is_in_place():
            raise ValueError(f"Report: the patch of {type(self.model).__name__} was undone, expected one in place: call "
                             "coda_cpp.patch again")
        return self

    def __exit__(self, *_):
        from . import unpatch

        if self._is_in_place():
            unpatch(self.model)

    def _is_in_place(self):
        """Whether a forward of this patch is still on its module."""
        return any(getattr(module.__dict__.get("forward"), "report", None) is self for module in self.modules)


def _section(title, rows):
    rows = list(rows)
    if not rows:
        return [f"{title}: none"]
    shown = rows[:_MOST_ROWS]
    width = max(len(name) for name, _ in shown)
    rest = [f"  … and {len(rows) - len(shown)} more"] if len(rows) > len(shown) else []
    return [f"{title}:", *(f"  {name:{width}}  {text}" for name, text in shown), *rest]
