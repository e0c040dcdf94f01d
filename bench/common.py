"""What every Python benchmark shares: its command line, its result file, its table and its plot.

The timer is coda_cpp.demo.paired: all entries in every round, the order rotated, ratios taken inside a round.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

import coda_cpp
from coda_cpp.demo import machine
from coda_cpp.demo.paired import Timing
from result_file import RESULTS, write

CONTROL = "stock again"
CONTROL_LIMIT = 0.05  # how far the median ratio of two equal entries may be from 1


@dataclass(frozen=True)
class Row:
    """One entry of one case. ratio, q1 and q3: its time ÷ stock's in the same round, median and quartiles."""

    case: str
    size: str
    dtype: str
    impl: str
    ms: float
    ratio: float
    q1: float
    q3: float


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=40, help="timed rounds of each case")
    parser.add_argument("--threads", type=int, default=machine.cores(), help="threads of every entry")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the result file and the plot")
    return parser


def use_threads(count: int) -> None:
    """The same number for torch and for coda."""
    torch.set_num_threads(count)
    coda_cpp.set_num_threads(count)


def rows(case: str, size: str, dtype: str, timings: Mapping[str, Timing]) -> list[Row]:
    return [
        Row(case, size, dtype, impl, round(t.seconds * 1e3, 4), round(t.ratio, 4), round(t.q1, 4), round(t.q3, 4))
        for impl, t in timings.items()
    ]


def show(found: list[Row]) -> None:
    for row in found:
        print(
            f"{row.case:14} {row.size:22} {row.dtype:5} {row.impl:12} {row.ms:9.3f} ms   ÷ stock {row.ratio:.3f} "
            f"({row.q1:.3f} – {row.q3:.3f})",
            flush=True,
        )


def void(found: list[Row]) -> list[str]:
    """Why a run says nothing: what computes the same as stock did not take the same time. Empty: the run holds."""
    return [
        f"void: {row.size} {row.dtype}: '{CONTROL}' reads {row.ratio:.3f}, expected 1 ± {CONTROL_LIMIT}"
        for row in found
        if row.impl == CONTROL and not abs(row.ratio - 1) <= CONTROL_LIMIT
    ]


def finish(options: argparse.Namespace, suite: str, found: list[Row]) -> None:
    """Writes the result and says where; exits with 1 and writes nothing when the run is void."""
    reasons = void(found)
    if reasons:
        reasons.append("nothing was written, for the machine is busy: run it again when it is quiet")
        raise SystemExit("\n".join(reasons))
    path = write(options.output, suite, found, "cpu", threads=options.threads, rounds=options.rounds)
    title = f"{suite}, {machine.cpu_name()}, {options.threads} threads, {machine.today()}"
    plot(path.with_suffix(".svg"), title, found)
    print(path)


def plot(path: Path, title: str, found: list[Row]) -> None:
    """Ratio of each entry but the baseline, quartiles as whiskers, 1 as a line."""
    from matplotlib.figure import Figure

    cases = list(dict.fromkeys((row.case, row.size, row.dtype) for row in found))
    impls = [impl for impl in dict.fromkeys(row.impl for row in found) if impl != "stock"]
    figure = Figure(figsize=(2 + 2 * len(cases), 4), layout="constrained")
    axes = figure.subplots()
    for number, impl in enumerate(impls):
        mine = [next(r for r in found if (r.case, r.size, r.dtype) == case and r.impl == impl) for case in cases]
        at = [place + (number - (len(impls) - 1) / 2) * 0.8 / len(impls) for place in range(len(cases))]
        whiskers = [[r.ratio - r.q1 for r in mine], [r.q3 - r.ratio for r in mine]]
        axes.bar(at, [r.ratio for r in mine], 0.75 / len(impls), yerr=whiskers, capsize=4, label=impl)
    axes.axhline(1, color="0.3", linewidth=1)
    axes.set_xticks(range(len(cases)), [f"{size}\n{dtype}" for _, size, dtype in cases])
    axes.set_ylabel("time ÷ stock")
    axes.set_title(title, fontsize="medium")
    axes.legend(frameon=False)
    figure.savefig(path)
