"""What the benchmarks of fused patterns share: operands, a case with its ways to compute it, its check and its timing."""

import math
from dataclasses import dataclass
from typing import Callable

import torch

from gpu_common import BASELINE, CONTROL, capture, rows, show

try:
    from coda.core.gemm import functional as coda_kernels
except ImportError:
    coda_kernels = None

EPS, THETA = 1e-5, 500000.0
BF16, F32 = torch.bfloat16, torch.float32


def normal(*shape, scale=1.0):
    return (torch.randn(shape, device="cuda", dtype=F32) * scale).to(BF16)


def weight(out, width):
    return normal(out, width, scale=1 / math.sqrt(width))


def partial_sums(values, width):
    """(M, N) to the sums over each `width` columns, as a program stores them."""
    return torch.stack([part.sum(-1) for part in values.split(width, -1)], -1)


def compiled(function):
    return torch.compile(function, fullgraph=True, dynamic=False)


def rms_norm(x, gamma):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * gamma.float()).to(x.dtype)


def turned(x, cos, sin):
    """Neighbouring columns turned; x (M, heads, head), cos and sin (M, head / 2)."""
    first, second = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2).to(x.dtype)


def in_turns(frequencies):
    """Frequencies as the CODA kernels take them: they turn the other way, and take turns instead of radians, each as two
    floats whose sum is exact."""
    turns = -frequencies.double() / (2 * math.pi)
    return torch.stack((turns.float(), (turns - turns.float()).float()), -1).flatten()


@dataclass
class Case:
    """Ways to compute one pattern, each returning an (M, N) tensor first; `expected` returns it too (None: compile's)."""

    name: str
    baseline: Callable
    entries: dict[str, Callable]
    notes: dict[str, str]
    expected: Callable | None = None
    layout: str = "TN"


def first(result):
    return result[0] if isinstance(result, tuple) else result


def check(case):
    """Every entry's first result against the expected one, which rounds once or twice more than ours."""
    expected = first((case.expected or case.entries["compile"])()).float()
    for name, run in list(case.entries.items()):
        got = first(run()).float()
        if got.shape != expected.shape:
            got = got.reshape(expected.shape)
        error = (got - expected).abs().max().item() / expected.abs().max().item()
        assert error < 0.02 or name == "coda-kernels", f"{case.name}: '{name}' differs by {error:.3g} of the largest value"
        if error >= 0.02:
            print(f"{case.name}: '{name}' differs by {error:.3g} of the largest value and is left out", flush=True)
            case.entries.pop(name)


def captured(run):
    """The run as a CUDA graph, so that what it costs the host is in no time."""
    graph, _ = capture(run, warm_ups=3)
    return graph.replay


def measure(timer, case, size, count):
    check(case)
    runs = {BASELINE: case.baseline} | case.entries | {CONTROL: case.baseline}
    entries = {name: captured(run) for name, run in runs.items()}
    found = rows(case.name, str(size), case.layout, timer.rounds(entries, count), notes=case.notes)
    show([row for row in found if row.impl != BASELINE])
    return found
