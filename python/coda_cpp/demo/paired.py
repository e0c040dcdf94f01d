"""Timing of things that are compared: all of them in every round, the order rotated, ratios taken inside a round.

A machine's clock drifts by more than the differences of interest, so two medians taken minutes apart say nothing; the
ratio of two neighbours does.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds of one entry, and its time ÷ the baseline's in the same round: median and quartiles."""

    seconds: float
    ratio: float
    q1: float
    q3: float
    rounds: int


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile, both ends of the sample included."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    q1, middle, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return q1, middle, q3


def time_rounds(
    entries: Mapping[str, Callable[[], object]],
    baseline: str,
    rounds: int,
    warmup: int = 1,
    on_round: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Calls every entry once a round, after `warmup` untimed rounds. `on_round` is called after each timed round."""
    if baseline not in entries:
        raise ValueError(f"time_rounds: baseline '{baseline}' is not an entry, expected one of {', '.join(entries)}")
    if rounds < 1:
        raise ValueError(f"time_rounds: rounds is {rounds}, expected 1 or more")
    names = list(entries)
    for _ in range(warmup):
        for name in names:
            entries[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in rotated(names, turn):
            start = clock()
            entries[name]()
            seconds[name].append(clock() - start)
        on_round()
    return {name: _summary(seconds[name], seconds[baseline]) for name in names}


def rotated(names: list[str], turn: int) -> list[str]:
    """The order of round `turn`: each name is first once in len(names) rounds, and every other cycle runs backwards,
    so that no entry always follows the same neighbour."""
    start = turn % len(names)
    order = names[start:] + names[:start]
    return order[::-1] if turn // len(names) % 2 else order


def _summary(mine: list[float], base: list[float]) -> Timing:
    q1, ratio, q3 = quartiles([own / other for own, other in zip(mine, base, strict=True)])
    return Timing(statistics.median(mine), ratio, q1, q3, len(mine))
