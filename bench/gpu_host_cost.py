"""Microseconds a call costs the host, beside PyTorch's own: small operands, nothing waited for. Writes
<date>-<gpu>-host_cost.json."""

import time
from dataclasses import dataclass

import torch

import coda_cpp as coda
from coda_cpp import functional as CF
from gpu_common import arguments
from result_file import write

SIDE, CALLS = 256, 300


@dataclass(frozen=True)
class Cost:
    """The least of several means over CALLS calls; above: what it costs more than torch.mm of the same kind."""

    call: str
    us: float
    above_mm: float


def microseconds(run, repeats=7):
    for _ in range(20):
        run()
    least = float("inf")
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            run()
        least = min(least, (time.perf_counter() - start) / CALLS * 1e6)
    return round(least, 2)


def calls():
    """{what is measured with what: {name: function}}; 'mm' is the baseline of each."""
    x, w, grad = (torch.randn(SIDE, SIDE, device="cuda").bfloat16() for _ in range(3))
    bias = torch.randn(SIDE, device="cuda").bfloat16()
    xg, wg = x.clone().requires_grad_(), w.clone().requires_grad_()
    plan = coda.prepare(x, w.T)
    backward = lambda make: lambda: torch.autograd.grad(make(), (xg, wg), grad)  # noqa: E731
    return {
        "": {"mm": lambda: torch.mm(x, w.T), "plan": plan, "gemm": lambda: coda.gemm(x, w.T),
             "linear": lambda: CF.linear(x, w), "linear with bias": lambda: CF.linear(x, w, bias),
             "linear_swiglu": lambda: CF.linear_swiglu(x, w, w)},
        ", recorded": {"mm": lambda: torch.mm(xg, wg.T), "linear": lambda: CF.linear(xg, wg)},
        ", forward and backward": {"mm": backward(lambda: torch.mm(xg, wg.T)), "linear": backward(lambda: CF.linear(xg, wg))},
    }


def main():
    options = arguments(__doc__).parse_args()
    found = []
    for how, runs in calls().items():
        times = {name: microseconds(run) for name, run in runs.items()}
        found += [Cost(name + how, us, round(us - times["mm"], 2)) for name, us in times.items()]
    for cost in found:
        print(f"{cost.call:32} {cost.us:8.2f} us  {cost.above_mm:+8.2f}")
    print(write(options.output, "host_cost", found, "cuda", side=SIDE))


if __name__ == "__main__":
    main()
