"""The fused patterns of a Transformer layer, forward and backward, and the layer's products, on the GPU, against the bare
cuBLAS products, torch.compile, and the public CODA kernels where they are installed. Writes <date>-<gpu>-patterns.json
and a plot.

A program that needs the row factor of a norm finishes its partial sums itself, and that is timed; torch.compile and the
CODA kernels are given the finished factor. Nothing is timed before its result was compared with the others'.
"""

import torch
import torch.nn.functional as F

import coda_cpp as coda
from coda_cpp import epilogues as E
from coda_cpp._core import partial_width
from gpu_backward import Backward
from gpu_case import (BF16, EPS, F32, THETA, Case, coda_kernels, compiled, in_turns, measure, normal, partial_sums, rms_norm,
                      turned, weight)
from gpu_common import CONTROL, PairedTimer, arguments, control_failures, grouped_bars, rounds_of, tuned
from result_file import write
from gpu_layer import Layer, LayerTraining

HEAD = 128
LSE_WIDTH = 128  # columns a partial log-sum-exp covers, as the loss of a block has them


def finish_lse():
    """(M, partials) to (M,): for readers of the whole log-sum-exp; a program that reads it finishes it by itself."""
    builder = coda.Builder("finish_lse")
    builder.store("total", builder.load_partials("partials", op="lse"))
    return builder.build()


class Square:
    """The operands of the square patterns: (h, h) by (h, h)."""

    def __init__(self, h):
        self.h = h
        self.a, self.w, self.residual = normal(h, h), weight(h, h), normal(h, h)
        self.gamma = normal(h)
        self.sum_sq = partial_sums(self.a.float().square(), partial_width(h))
        self.rstd = torch.rsqrt(self.sum_sq.sum(-1) / h + EPS)
        self.positions = torch.arange(h, device="cuda", dtype=torch.int32)
        self.frequencies = THETA ** (-torch.arange(0, HEAD, 2, device="cuda", dtype=F32) / HEAD)
        self.targets = torch.randint(h, (h,), device="cuda")

    def product(self):
        return self.a @ self.w.T

    def case(self, name, entries, ours, note):
        return Case(name, self.product, {"coda": ours} | entries, {"coda": note})

    def residual_rms(self):
        fused = compiled(lambda a, w, residual, gamma: (x := a @ w.T + residual, rms_norm(x, gamma)))
        entries = {"compile": lambda: fused(self.a, self.w, self.residual, self.gamma)}
        if coda_kernels:
            entries["coda-kernels"] = lambda: coda_kernels.gemm_residual_partial_rmsnorm(
                A=self.a, B=self.w.mT, C=self.residual, W=self.gamma, eps=EPS)
        program = E.residual_rms(partial_width=partial_width(self.h))
        ours = tuned(self.a, self.w.T, program, residual=self.residual, gamma=self.gamma)
        return self.case("residual_rms", entries, *ours)

    def rms_swiglu(self):
        half = self.h // 2
        def stock(a, w, rstd):
            z = ((a @ w.T) * rstd[:, None]).to(BF16)
            gate, up = z.chunk(2, -1)
            return F.silu(gate) * up, z
        fused = compiled(stock)
        entries = {"compile": lambda: fused(self.a, self.w, self.rstd)}
        if coda_kernels:
            pairs = self.w.view(2, half, self.h).transpose(0, 1).reshape(self.h, self.h).contiguous()
            entries["coda-kernels"] = lambda: coda_kernels.gemm_rmsnorm_swiglu(A=self.a, B=pairs.mT, rstd=self.rstd)[::-1]
        factor = coda.pair(self.w[:half].T, self.w[half:].T)
        for save in (True, False):
            program = E.rms_gated(count=self.h, eps=EPS, gate="swiglu", save_inputs=save)
            plan, note = tuned(self.a, factor, program, sum_sq=self.sum_sq)
            index = [operand.name for operand in program.operands if operand.role == "out"].index("out")
            ours = (lambda plan, index: lambda: plan()[index])(plan, index) if save else plan
            yield self.case("rms_swiglu" if save else "rms_swiglu, z not kept", entries, ours, note)

    def rms_rope(self):
        angle = self.positions.float()[:, None] * self.frequencies
        cos, sin = angle.cos(), angle.sin()
        heads = self.h // HEAD
        fused = compiled(lambda a, w, rstd, cos, sin: turned(
            ((a @ w.T) * rstd[:, None]).view(self.h, heads, HEAD), cos, sin).to(BF16).flatten(1))
        entries = {"compile": lambda: fused(self.a, self.w, self.rstd, cos, sin)}
        if coda_kernels:
            exact = in_turns(self.frequencies).repeat(heads)
            entries["coda-kernels"] = lambda: coda_kernels.gemm_rmsnorm_rope(
                A=self.a, B=self.w.mT, rstd=self.rstd, positions=self.positions, frequencies=exact)
        for interleaved in (True, False):
            program = E.rms_rope(count=self.h, eps=EPS, head=HEAD, angles="frequency", interleaved=interleaved)
            plan, note = tuned(self.a, self.w.T, program, sum_sq=self.sum_sq, positions=self.positions,
                               frequencies=self.frequencies)
            if interleaved:
                yield self.case("rms_rope", entries, plan, note)
            else:
                yield Case("rms_rope, halves", self.product, {"coda": plan}, {"coda": note}, lambda: self.halves(cos, sin))

    def halves(self, cos, sin):
        z = (self.product().float() * self.rstd[:, None]).unflatten(-1, (-1, HEAD))
        neighbours = z.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
        return turned(neighbours, cos, sin).unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(1)

    def rms_lse(self):
        def stock(a, w, rstd):
            z = ((a @ w.T) * rstd[:, None]).to(BF16)
            return z, torch.logsumexp(z.float(), -1)
        fused = compiled(stock)
        entries = {"compile": lambda: fused(self.a, self.w, self.rstd)}
        if coda_kernels:
            entries["coda-kernels"] = lambda: coda_kernels.gemm_rmsnorm_lse(A=self.a, B=self.w.mT, rstd=self.rstd)
        program = E.rms_lse(count=self.h, eps=EPS, store_logits=True, partial_width=LSE_WIDTH)
        plan, note = tuned(self.a, self.w.T, program, sum_sq=self.sum_sq, targets=self.targets)
        total = torch.empty(self.h, device="cuda")
        finish = finish_lse()
        def finished():
            made = plan()
            coda.elementwise(finish, shape=(self.h, 1), partials=made.lse, total=total)
            return made.logits
        return self.case("rms_lse", entries | {"coda, partials": plan}, finished, note)

    def cases(self):
        yield self.residual_rms()
        yield from self.rms_swiglu()
        yield from self.rms_rope()
        yield self.rms_lse()


def plot(path, found):
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row.case for row in found))
    sizes = list(dict.fromkeys(row.size for row in found))
    impls = [impl for impl in ("compile", "coda-kernels", "coda") if any(row.impl == impl for row in found)]
    figure = Figure(figsize=(12, 3.2 * len(sizes)), layout="constrained")
    for axes, size in zip(figure.subplots(len(sizes), 1, squeeze=False)[:, 0], sizes):
        grouped_bars(axes, names, {impl: [(row.case, row) for row in found if row.impl == impl and row.size == size]
                                   for impl in impls})
        axes.set_ylim(0.8, 1.8)
        axes.set_xlim(-0.6, len(names) - 0.4)
        axes.set_xticks(range(len(names)), [name.replace(", ", ",\n") for name in names])
        axes.set_title(f"{size}: fused patterns, {torch.cuda.get_device_name()}; the line is the bare product",
                       fontsize="medium")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False)
    figure.savefig(path)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", default=["patterns", "backward", "layer", "training"], help="parts to run")
    parser.add_argument("--sizes", nargs="*", type=int, default=[2048, 4096, 8192], help="widths to run")
    options = parser.parse_args()
    timer, found = PairedTimer(), []
    for h in options.sizes:
        if "patterns" in options.only:
            for case in Square(h).cases():
                found += measure(timer, case, h, rounds_of(h, h, h, options.rounds))
        if "backward" in options.only:
            for case in Backward(h).cases():
                found += measure(timer, case, h, rounds_of(h, h, h, options.rounds))
        if "layer" in options.only:
            found += measure(timer, Layer(h).case(), h, max(options.rounds // 4, 12))
            torch.cuda.empty_cache()
        if "training" in options.only:
            found += measure(timer, LayerTraining(h).case(), h, max(options.rounds // 4, 12))
        torch.cuda.empty_cache()
        path = write(options.output, "patterns", found, "cuda", rounds=options.rounds)  # after each size: nothing is lost
    plot(path.with_suffix(".svg"), found)
    print(path)
    for row in control_failures(found, 0.03):
        print(f"void: {row.case} {row.size}: '{CONTROL}' reads {row.ratio}, expected 1 ± 0.03")


if __name__ == "__main__":
    main()
