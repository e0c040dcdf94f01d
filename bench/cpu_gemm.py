"""Bare matrix products on the CPU: torch's linear and coda's gemm, 512 rows, weights (N, K) as a checkpoint has them.

Stock is entered twice; its second entry must read 1.

    python bench/cpu_gemm.py [--rounds N] [--threads N] [--output FOLDER]
"""

import common
import torch

import coda_cpp
from coda_cpp.demo.paired import time_rounds

ROWS = 512
SHAPES = [(576, 576), (576, 960), (576, 1536), (1536, 576), (2048, 2048), (2048, 3072), (2048, 8192), (8192, 2048)]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
LIMIT = {"f32": 1e-5, "bf16": 4e-3}  # relative: fp32 sums, and one rounding to bf16
WARMUP = 2


def measure(depth: int, cols: int, name: str, rounds: int) -> list[common.Row]:
    a = torch.randn(ROWS, depth).to(DTYPES[name])
    weight = (torch.randn(cols, depth) / depth**0.5).to(DTYPES[name])
    out = torch.empty(ROWS, cols, dtype=DTYPES[name])

    def stock() -> object:
        return torch.nn.functional.linear(a, weight)

    def coda() -> object:
        return coda_cpp.gemm(a, weight.T, out=out)

    coda()
    exact = a.double() @ weight.double().T
    error = float((out.double() - exact).norm() / exact.norm())
    if not error <= LIMIT[name]:
        raise SystemExit(f"cpu_gemm: coda is off by {error:.1e} relative in {name}, limit {LIMIT[name]:.0e}")
    entries = {"stock": stock, "coda": coda, common.CONTROL: stock}
    timings = time_rounds(entries, baseline="stock", rounds=rounds, warmup=WARMUP)
    return common.rows("gemm", f"{ROWS}x{cols}x{depth}", name, timings)


def main() -> None:
    options = common.arguments(__doc__.splitlines()[0]).parse_args()
    common.use_threads(options.threads)
    torch.manual_seed(0)
    found: list[common.Row] = []
    for name in DTYPES:
        for depth, cols in SHAPES:
            measured = measure(depth, cols, name, options.rounds)
            common.show(measured)
            found += measured
    common.finish(options, "cpu_gemm", found)


if __name__ == "__main__":
    main()
