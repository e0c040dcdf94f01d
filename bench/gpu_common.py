"""What the GPU benchmarks share: the paired timer with L2 flushed, the result file and the plot.

All entries run in every round, in rotating order; a ratio is taken between two times of one round, because the card
changes its clocks under load. cuBLAS is entered twice: where the two differ, the run says nothing.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch

import coda_cpp
from result_file import RESULTS

BASELINE, CONTROL = "cublas", "cublas again"


@dataclass(frozen=True)
class Row:
    """One entry of one case. ratio, q1 and q3: its time ÷ the baseline's in the same round, median and quartiles."""

    case: str
    size: str
    layout: str
    impl: str
    ms: float
    ratio: float
    q1: float
    q3: float
    note: str = ""


def tuned(a, b, epilogue="identity", rounds=24, **operands):
    """A plan at the fastest schedule, and the schedule."""
    schedule = coda_cpp.tune(a, b, epilogue, rounds=rounds, **operands)[0].schedule
    return coda_cpp.prepare(a, b, epilogue, schedule=schedule, **operands), schedule


class PairedTimer:
    """Times functions against each other; L2 is overwritten before each run."""

    def __init__(self):
        # Far more than L2: the host queues what is timed while this is written.
        self.flush = torch.empty(1 << 28, device="cuda")
        self.start, self.stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def once(self, run):
        self.flush.zero_()
        self.start.record()
        run()
        self.stop.record()
        self.stop.synchronize()
        return self.start.elapsed_time(self.stop)

    def rounds(self, entries, count):
        """Milliseconds of each entry in each round."""
        for run in entries.values():
            run()
        names, times = list(entries), {name: [] for name in entries}
        for turn in range(count):
            for i in range(len(names)):
                name = names[(i + turn) % len(names)]
                times[name].append(self.once(entries[name]))
        return times


def capture(work, warm_ups=0):
    """A CUDA graph of what `work` queues, and its result. warm_ups: runs before, on a stream aside: they compile, load and
    tune, which a capture forbids."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm_ups):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result


def rounds_of(m, n, k, rounds):
    return rounds if m * n * k < 2**36 else max(rounds // 3, 20)


def rows(case, size, layout, times, baseline=BASELINE, notes=None):
    base = torch.tensor(times[baseline], dtype=torch.float64)
    found = []
    for name, values in times.items():
        values = torch.tensor(values, dtype=torch.float64)
        quartiles = (values / base).quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)).tolist()
        q1, ratio, q3 = (round(x, 4) for x in quartiles)
        found.append(Row(case, size, layout, name, round(values.median().item(), 5), ratio, q1, q3, (notes or {}).get(name, "")))
    return found


def show(found):
    for row in found:
        print(f"{row.case:10} {row.size:18} {row.layout:3} {row.impl:18} {row.ms:9.4f} ms  {row.ratio:.3f} "
              f"({row.q1:.3f} – {row.q3:.3f})  {row.note}", flush=True)


def control_failures(found, limit):
    """Rows of the second cuBLAS that do not read 1: their cases are void."""
    return [row for row in found if row.impl == CONTROL and abs(row.ratio - 1) > limit]


def grouped_bars(axes, places, groups):
    """Bars of ratio with their quartiles, side by side at each place, and the line of the baseline. groups: {label:
    [(place, row), …]}."""
    for number, (label, these) in enumerate(groups.items()):
        at = [places.index(place) + (number - 1) * 0.27 for place, _ in these]
        whiskers = [[row.ratio - row.q1 for _, row in these], [row.q3 - row.ratio for _, row in these]]
        axes.bar(at, [row.ratio for _, row in these], 0.25, yerr=whiskers, capsize=3, label=label)
    axes.axhline(1, color="0.3", linewidth=1)
    axes.set_ylabel("time ÷ cuBLAS")


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the result file and the plot")
    parser.add_argument("--rounds", type=int, default=100, help="rounds of the smallest size; large ones get a third")
    return parser
