"""Says where a long run stands: a progress bar on a terminal, plain lines elsewhere."""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

Tick = Callable[[], None]


class _Bars(Progress):
    """Bars with the text that is being written under them."""

    written = ""

    def get_renderables(self):
        yield from super().get_renderables()
        if self.written:
            yield Text(self.written, style="italic")


class Stages:
    """`count` stages, entered one after the other with `stage`."""

    def __init__(self, console: Console, count: int) -> None:
        self._console = console
        self._count = count
        self._entered = 0
        self._bars = _Bars(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        ) if console.is_terminal else None  # fmt: skip

    def __enter__(self) -> "Stages":
        if self._bars:
            self._bars.start()
            self._whole = self._bars.add_task("[bold]all stages", total=self._count)
        return self

    def __exit__(self, *exception) -> None:
        if self._bars:
            self._bars.stop()

    @contextlib.contextmanager
    def stage(self, title: str, steps: int | None = None) -> Iterator[Tick]:
        """One stage. `steps`: how many ticks it will make, where that is known."""
        self._entered += 1
        start = time.monotonic()
        with self._shown(title, steps) as tick:
            yield tick
        if not self._bars:
            seconds = time.monotonic() - start
            self._console.print(f"[{self._entered}/{self._count}] {title}: {seconds:.1f} s", markup=False)

    def write(self, piece: str) -> None:
        """Adds to the text shown while a stage runs."""
        if self._bars:
            self._bars.written += piece
            self._bars.refresh()
        else:
            self._console.print(piece, end="", markup=False, highlight=False, soft_wrap=True)

    def end_text(self) -> None:
        """Ends the text: on a terminal it moves above the bars."""
        if self._bars:
            written, self._bars.written = self._bars.written, ""
            self._console.print(Text(written, style="italic"))
        else:
            self._console.print()

    @contextlib.contextmanager
    def _shown(self, title: str, steps: int | None) -> Iterator[Tick]:
        if not self._bars:
            yield lambda: None
            return
        bar = self._bars.add_task(f"  {title}", total=steps)
        yield lambda: self._bars.advance(bar)
        self._bars.update(bar, total=steps or 1, completed=steps or 1)
        self._bars.advance(self._whole)
