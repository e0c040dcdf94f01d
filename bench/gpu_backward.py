"""The backward patterns: operands and ways to compute each. gpu_patterns.py runs them. Every program of ours is derived."""

import torch

import coda_cpp as coda
from coda_cpp import Cotangent
from coda_cpp import epilogues as E
from coda_cpp._core import partial_width
from gpu_case import BF16, EPS, Case, coda_kernels, compiled, normal, partial_sums, weight
from gpu_common import tuned


class Backward:
    """The cotangent of the product behind the pattern is (h, h), that product's weight (h, h): their product brings the
    pattern its cotangent."""

    def __init__(self, h):
        self.h, self.width = h, partial_width(h)
        self.d_z, self.w = normal(h, h), weight(h, h)

    def product(self):
        return self.d_z @ self.w

    def case(self, name, entries, ours, note):
        return Case(name, self.product, {"coda": ours} | entries, {"coda": note}, layout="NN")

    def residual_rms(self):
        """From the cotangents of x·γ (the product) and x, and the norm's row sums s, to those of x and γ."""
        h = self.h
        x, d_x, gamma = normal(h, h), normal(h, h), 1 + normal(h, scale=0.1)
        sum_sq = partial_sums(x.float().square(), self.width)
        rstd = torch.rsqrt(sum_sq.sum(-1) / h + EPS)
        row_sums = partial_sums(self.product().float() * (x * gamma).float(), self.width)
        factor = coda.differentiate(E.rms(count=h, eps=EPS), ["acc0", "sum_sq"], [Cotangent.load("out")])
        backward = coda.differentiate(
            E.residual_rms(partial_width=self.width), ["acc0", "gamma"],
            [Cotangent.load("x"), Cotangent.acc("h"), Cotangent.computed("sum_sq", factor.gradients[1].finish)])
        ours = tuned(self.d_z, self.w, backward.program, x=x, d_x=d_x, gamma=gamma, sum_sq=sum_sq, s_sum_sq=row_sums)

        def stock(d_z, w, x, d_x, gamma, rstd):
            d_h, r = (d_z @ w).float(), rstd[:, None]
            normed, d_normed = x.float() * r, d_h * gamma.float()
            d_stream = (d_normed - normed * (d_normed * normed).mean(-1, keepdim=True)) + d_x.float()
            return d_stream.to(BF16), (d_h * x.float()).sum(0)
        fused = compiled(stock)
        entries = {"compile": lambda: fused(self.d_z, self.w, x, d_x, gamma, rstd)}
        if coda_kernels:
            mean, sums_so_far = row_sums.sum(-1) / h, d_x.clone()  # it adds to what it is given
            entries["coda-kernels"] = lambda: coda_kernels.gemm_residual_partial_rmsnorm_bwd(
                A=self.d_z, B=self.w.mT, W=gamma, pre=x, ZdZ=mean, rstd=rstd, dX=sums_so_far)
            entries["coda-kernels"]()  # tunes, and so adds several times
            sums_so_far.copy_(d_x)
        return self.case("residual_rms_bwd", entries, *ours)

    def swiglu(self):
        """From the cotangent of silu(gate)·up (the product) to those of gate and up times the norm's factor, and its row
        sums s. The factor is 1 here: the CODA kernels apply none."""
        h = self.h
        gate, up = normal(h, h), normal(h, h)
        count = -(-h // self.width)
        sum_sq = torch.full((h, count), h * (1 - EPS) / count, device="cuda")
        backward = coda.differentiate(
            E.rms_gated(count=h, eps=EPS, gate="swiglu", save_inputs=True), ["acc0", "acc1", "sum_sq"],
            [Cotangent.acc("out"), Cotangent.none("gate"), Cotangent.none("up")],
            partial_width=min(self.width, 128))  # as blocks take on a GPU: wider ones shut out tiles of 128 columns
        ours = tuned(self.d_z, self.w, backward.program, gate=gate, up=up, sum_sq=sum_sq)

        def stock(d_z, w, gate, up, rstd):
            d_y, g, u = (d_z @ w).float(), gate.float(), up.float()
            sig = torch.sigmoid(g)
            d_gate, d_up = d_y * u * (sig + g * sig * (1 - sig)), d_y * g * sig
            return (d_gate * rstd).to(BF16), (d_up * rstd).to(BF16), (d_gate * g + d_up * u).sum(-1)
        fused, rstd = compiled(stock), torch.ones(h, 1, device="cuda")
        entries = {"compile": lambda: fused(self.d_z, self.w, gate, up, rstd)}
        if coda_kernels:
            neighbours = torch.stack((gate, up), -1).flatten(1)
            entries["coda-kernels"] = lambda: coda_kernels.gemm_swiglu_bwd_zdz(
                A=self.d_z, B=self.w.mT, Z=neighbours, scale=1 / h)[0][:, ::2]
        return self.case("swiglu_bwd", entries, *ours)

    def cases(self):
        yield self.residual_rms()
        yield self.swiglu()
