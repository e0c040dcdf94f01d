"""Bare bf16 products on the GPU against cuBLAS (torch.mm), as TN, NN and NT; epilogues against the bare product; few
rows; what a launch costs the host; what compiling costs. Writes bench/results/<date>-<gpu>-gemm.json with its plot, and
<date>-<gpu>-epilogue.json."""

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import coda_cpp as coda
from gpu_common import BASELINE, CONTROL, PairedTimer, arguments, control_failures, grouped_bars, rounds_of, rows, show, tuned
from result_file import write

SIZES = [(2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 3072, 2048), (16384, 16384, 2048),
         (16384, 2048, 8192), (16384, 6144, 4096), (16384, 28672, 4096), (16384, 4096, 14336)]
FEW_ROWS = [1, 2, 4, 8, 16, 32, 64]
LAYOUTS = ["TN", "NN", "NT"]


def matrix(rows_, cols, transposed, dtype=torch.bfloat16):
    """A (rows, cols) view of normal numbers, its columns contiguous where transposed."""
    shape = (cols, rows_) if transposed else (rows_, cols)
    values = torch.randn(shape, device="cuda").to(dtype)
    return values.T if transposed else values


def factors(m, n, k, layout):
    """BLAS's letters, of the column-major product, B first: TN is a forward, NN a data gradient, NT a weight gradient."""
    return matrix(m, k, layout[1] == "T"), matrix(k, n, layout[0] == "T")


def size_text(m, n, k):
    return str(m) if m == n == k else f"{m}x{n}x{k}"


def check(a, b, out):
    """The tuned kernel's result against cuBLAS's, before the clock starts."""
    expected = (a @ b).float()
    error = (out.float() - expected).abs().max().item() / expected.abs().max().item()
    assert error < 2**-7, f"relative error {error}"


def bench_plain(timer, rounds, sizes, case="gemm", layouts=LAYOUTS):
    found = []
    for m, n, k in sizes:
        for layout in layouts:
            a, b = factors(m, n, k, layout)
            plan, schedule = tuned(a, b)
            check(a, b, plan())
            out = torch.empty(m, n, dtype=a.dtype, device="cuda")
            entries = {BASELINE: lambda: torch.mm(a, b, out=out), "coda": plan, CONTROL: lambda: torch.mm(a, b, out=out)}
            times = timer.rounds(entries, rounds_of(m, n, k, rounds))
            new = rows(case, size_text(m, n, k), layout, times, notes={"coda": schedule})
            show([row for row in new if row.impl != BASELINE])
            found += new
    return found


def epilogue_entries(m, n, k):
    a, b = factors(m, n, k, "TN")
    f32 = torch.zeros(m, n, device="cuda")
    programs = {
        "plain": ("identity", {}),
        "residual": ("residual", {"residual": matrix(m, n, False)}),
        "accumulate bf16": (accumulating(coda.bf16), {"out": matrix(m, n, False)}),
        "accumulate f32": (accumulating(coda.f32), {"out": f32}),
        "bias": ("bias", {"bias": torch.randn(n, device="cuda").bfloat16()}),
        "f32 out": (storing(coda.f32), {}),
    }
    entries, notes = {}, {}
    for name, (program, operands) in programs.items():
        entries[name], notes[name] = tuned(a, b, program, rounds=18, **operands)
    return entries, notes


def accumulating(dtype):
    builder = coda.Builder("accumulate")
    builder.store("out", builder.acc(), dtype=dtype, accumulate=True)
    return builder.build()


def storing(dtype):
    builder = coda.Builder("widened")
    builder.store("out", builder.acc(), dtype=dtype)
    return builder.build()


def bench_epilogues(timer, rounds):
    found = []
    for size in (2048, 4096, 8192):
        entries, notes = epilogue_entries(size, size, size)
        times = timer.rounds(entries, rounds_of(size, size, size, rounds))
        new = rows("epilogue", str(size), "TN", times, baseline="plain", notes=notes)
        show(new)
        found += new
    return found


PLAN_COST = Path(__file__).parents[1] / "build/gpu/bench_gpu_plan_cost"


def host_cost():
    """Microseconds the host spends in one Plan::run, by program."""
    return json.loads(subprocess.run([PLAN_COST], capture_output=True, text=True, check=True).stdout)


COMPILE = """
import sys, time, torch, coda_cpp as coda
from concurrent.futures import ThreadPoolExecutor
a = torch.randn(4096, 4096, device="cuda").bfloat16()
b = torch.randn(4096, 4096, device="cuda").bfloat16().T
torch.cuda.synchronize()
count = int(sys.argv[1])
calls = [("identity", {}), ("residual", {"residual": a})]
all = [(program, schedule, operands) for program, operands in calls
       for schedule, _ in coda.candidates(a, b, program, **operands)][:count]
start = time.perf_counter()
with ThreadPoolExecutor(16) as pool:
    list(pool.map(lambda each: coda.prepare(a, b, each[0], schedule=each[1], **each[2]), all))
print(len(all), time.perf_counter() - start)
"""


# One decoder layer of LLaMA-3 8B's shape, from the first call to its result: every kernel, attention's too, is loaded.
LAYER = """
import time, torch
from coda_cpp import blocks
tokens, d, mlp, heads, kv_heads, head = 512, 4096, 14336, 32, 8, 128
weight = lambda out, width: torch.randn(out, width, device="cuda").bfloat16() / width**0.5
norm = blocks.RmsNorm(torch.ones(d, device="cuda", dtype=torch.bfloat16), 1e-5)
weights = blocks.LayerWeights(
    input_norm=norm, q=weight(heads * head, d), k=weight(kv_heads * head, d), v=weight(kv_heads * head, d),
    o=weight(d, heads * head), post_norm=norm, gate=weight(mlp, d), up=weight(mlp, d), down=weight(d, mlp))
x, rope = weight(tokens, d), blocks.Rope(head, positions=torch.arange(tokens, device="cuda"))
torch.cuda.synchronize()
start = time.perf_counter()
blocks.transformer_layer(blocks.enter_norm(x, norm), weights, rope, norm, heads=heads, kv_heads=kv_heads)
torch.cuda.synchronize()
print(time.perf_counter() - start)
"""


def compile_cost():
    """Seconds for 20 candidates from a cold cache, for one plan from a warm disk, and for the first run of a layer from
    a cold and a warm one, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        def run(cache, *command):
            environment = os.environ | {"CODA_CACHE_DIR": f"{folder}/{cache}"}
            done = subprocess.run([sys.executable, "-c", *command], env=environment, capture_output=True, text=True, check=True)
            return [float(word) for word in done.stdout.split()]
        count, cold = run("plans", COMPILE, "20")
        _, warm = run("plans", COMPILE, "1")
        layer_cold, layer_warm = (run("layer", LAYER)[0] for _ in range(2))
    return {"compiled": int(count), "cold_s": round(cold, 3), "warm_plan_s": round(warm, 4),
            "layer_cold_s": round(layer_cold, 3), "layer_warm_s": round(layer_warm, 3)}


def plot(path, found):
    from matplotlib.figure import Figure

    mine = [row for row in found if row.impl == "coda" and row.case == "gemm"]
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axes = figure.subplots()
    sizes = list(dict.fromkeys(row.size for row in mine))
    grouped_bars(axes, sizes, {layout: [(row.size, row) for row in mine if row.layout == layout] for layout in LAYOUTS})
    axes.set_ylim(0.85, 1.06)
    axes.set_xticks(range(len(sizes)), [size.replace("x", "\n× ") for size in sizes])
    axes.set_title(f"bf16 products, {torch.cuda.get_device_name()}: below the line is faster than cuBLAS", fontsize="medium")
    axes.legend(frameon=False, ncols=3)
    figure.savefig(path)


def geometric_mean(found):
    ratios = [row.ratio for row in found if row.impl == "coda" and row.case == "gemm"]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", default=["gemm", "epilogue", "rows", "cost"], help="parts to run")
    options = parser.parse_args()
    timer, found, facts = PairedTimer(), [], {}
    if "cost" in options.only:
        facts = {"plan_run_us": host_cost(), **compile_cost()}
        print(facts, flush=True)
    if "gemm" in options.only:
        found += bench_plain(timer, options.rounds, SIZES)
    if "epilogue" in options.only:
        found += bench_epilogues(timer, options.rounds)
    if "rows" in options.only:
        few = [(m, n, k) for n, k in ((4096, 4096), (28672, 4096)) for m in FEW_ROWS]
        found += bench_plain(timer, options.rounds, few, "few rows", ["TN"])
    products = [row for row in found if row.case != "epilogue"]
    if products:
        mean = round(geometric_mean(found), 4)
        path = write(options.output, "gemm", products, "cuda", rounds=options.rounds, geometric_mean=mean)
        plot(path.with_suffix(".svg"), found)
        print(f"geometric mean {mean}; {path}")
    epilogues = [row for row in found if row.case == "epilogue"]
    if epilogues or facts:
        print(write(options.output, "epilogue", epilogues, "cuda", rounds=options.rounds, **facts))
    for row in control_failures([row for row in found if row.case == "gemm"], 0.03):
        print(f"void: {row.size} {row.layout}: '{CONTROL}' reads {row.ratio}, expected 1 ± 0.03")


if __name__ == "__main__":
    main()
