"""A layer but for its attention: output projection, MLP, the next layer's q, k and v; forward, and forward and backward.
gpu_patterns.py runs both."""

import torch
import torch.nn.functional as F

import coda_cpp as coda
from coda_cpp import epilogues as E
from coda_cpp import training
from coda_cpp._core import partial_width
from coda_cpp.nn import segment
from gpu_case import BF16, EPS, F32, THETA, Case, coda_kernels, compiled, in_turns, normal, rms_norm, turned, weight
from gpu_common import tuned

SIZES = {2048: (8192, 3072, 64), 4096: (14336, 6144, 128), 8192: (28672, 10240, 128)}  # MLP width, q+k+v, head
TOKENS = 16384


class Layer:
    """The forward."""

    def __init__(self, h):
        self.h, (self.mlp, self.qkv, self.head) = h, SIZES[h]
        m = TOKENS
        self.x, self.y = normal(m, h), normal(m, h)
        self.w_o, self.w_mlp = weight(h, h), weight(2 * self.mlp, h)
        self.w_down, self.w_qkv = weight(h, self.mlp), weight(self.qkv, h)
        self.gamma_mlp, self.gamma_qkv = 1 + 0.1 * normal(h), 1 + 0.1 * normal(h)
        self.kv = (self.qkv - h) // 2
        self.positions = torch.arange(m // 2, device="cuda", dtype=torch.int32).repeat(2)
        self.frequencies = THETA ** (-torch.arange(0, self.head, 2, device="cuda", dtype=F32) / self.head)

    def products(self):
        t = self.y @ self.w_o.T
        z = t @ self.w_mlp.T
        return z[:, :self.mlp] @ self.w_down.T @ self.w_qkv.T

    def angles(self):
        angle = self.positions.float()[:, None] * self.frequencies
        return angle.cos(), angle.sin()

    def leaves(self):
        return self.x, self.y, self.w_o, self.w_mlp, self.w_down, self.w_qkv, self.gamma_mlp, self.gamma_qkv

    def stock(self, x, y, w_o, w_mlp, w_down, w_qkv, gamma_mlp, gamma_qkv, cos, sin):
        turns = self.h + self.kv
        x1 = x + y @ w_o.T
        gate, up = (rms_norm(x1, gamma_mlp) @ w_mlp.T).chunk(2, -1)
        x2 = x1 + (F.silu(gate) * up) @ w_down.T
        qk, v = (rms_norm(x2, gamma_qkv) @ w_qkv.T).split((turns, self.qkv - turns), -1)
        qk = turned(qk.view(len(x), turns // self.head, self.head), cos, sin).flatten(1)
        return torch.cat((qk, v), -1), x2

    def compile_entry(self):
        fused, angles = compiled(self.stock), self.angles()
        return lambda: fused(*self.leaves(), *angles)

    def plans(self):
        """Four plans, each on what the one before it leaves, and the schedules."""
        h, norm = self.h, dict(count=self.h, eps=EPS)
        entering = E.residual_rms(partial_width=partial_width(h))
        o = tuned(self.y, self.w_o.T, entering, residual=self.x, gamma=self.gamma_mlp)
        x1, h1, sums1 = o[0].outputs
        mlp = tuned(h1, coda.pair(self.w_mlp[:self.mlp].T, self.w_mlp[self.mlp:].T), E.rms_gated(gate="swiglu", **norm),
                    sum_sq=sums1)
        down = tuned(mlp[0].outputs, self.w_down.T, entering, residual=x1, gamma=self.gamma_qkv)
        x2, h2, sums2 = down[0].outputs
        rope = E.rms_rope(head=self.head, angles="frequency", interleaved=True, **norm)
        turns = dict(sum_sq=sums2, positions=self.positions, frequencies=self.frequencies)
        qkv = torch.empty(TOKENS, self.qkv, device="cuda", dtype=BF16)
        q, k, v = qkv.split((h, self.kv, self.kv), -1)
        parts = [coda.segment(rope, out=q, **turns), coda.segment(rope, out=k, **turns),
                 coda.segment(E.rms(**norm), out=v, sum_sq=sums2)]
        factor = coda.concat(*(w.T for w in self.w_qkv.split((h, self.kv, self.kv))))
        last = tuned(h2, factor, parts)
        return [plan for plan, _ in (o, mlp, down, last)], [note for _, note in (o, mlp, down, last)], qkv

    def case(self):
        plans, notes, qkv = self.plans()

        def ours():
            for plan in plans:
                plan()
            return qkv

        return Case("layer_fwd", self.products, {"coda": ours, "compile": self.compile_entry()}, {"coda": "; ".join(notes)})


class LayerTraining(Layer):
    """Forward and backward: gradients by the stream, attention's result and every weight."""

    def __init__(self, h):
        super().__init__(h)
        self.d_x, self.d_qkv = normal(TOKENS, h), normal(TOKENS, self.qkv)

    def products(self):
        mlp, t = self.mlp, self.y @ self.w_o.T
        z = t @ self.w_mlp.T
        y = z[:, :mlp]
        u = y @ self.w_down.T
        u @ self.w_qkv.T
        d_u = self.d_qkv @ self.w_qkv
        self.d_qkv.T @ u
        d_u @ self.w_down
        d_u.T @ y
        d_t = z @ self.w_mlp
        z.T @ t
        d_t.T @ self.y
        return d_t @ self.w_o

    def compile_entry(self):
        fused, angles = compiled(self.stock), self.angles()
        leaves = [leaf.detach().requires_grad_() for leaf in self.leaves()]
        return lambda: torch.autograd.grad(fused(*leaves, *angles), leaves, (self.d_qkv, self.d_x))

    def coda_kernels_entry(self):
        from coda.kernels.blocks import llama3

        cos, sin = (table.repeat_interleave(2, -1) for table in self.angles())

        @compiled
        def turned_back(y, dy, scale):  # its own kernel for this is not in its public tree
            first, second = dy.float()[:, :self.h + self.kv].unflatten(-1, (-1, self.head // 2, 2)).unbind(-1)
            c, s = cos[:, None, ::2], sin[:, None, ::2]
            turned = torch.stack((first * c + second * s, second * c - first * s), -1).flatten(1).to(dy.dtype)
            return torch.cat((turned, dy[:, self.h + self.kv:]), -1), (y.float() * dy.float()).sum(-1) * scale

        llama3.rope_bwd_zdz = lambda y, dy, pos, freq, scale: turned_back(y, dy, scale)
        turns = in_turns(self.frequencies).repeat((self.h + self.kv) // self.head)
        turns = torch.cat((turns, turns.new_zeros(self.kv)))
        pairs = self.w_mlp.view(2, self.mlp, self.h).transpose(0, 1).reshape(2 * self.mlp, self.h)
        leaves = [self.x, self.y, self.w_o, pairs, self.w_down, self.w_qkv, self.gamma_mlp, self.gamma_qkv]
        leaves = [leaf.detach().requires_grad_() for leaf in leaves]

        def run():
            x2, qkv = llama3.Block.apply(*leaves, self.positions, turns, EPS)
            return torch.autograd.grad((x2, qkv), leaves, (self.d_x, self.d_qkv))
        return run

    def in_halves(self, rows):
        """Rows of q and k (..., rows, columns) as a rotation of halves has them, where that of neighbours has `rows`."""
        return rows.unflatten(0, (-1, self.head // 2, 2)).transpose(1, 2).flatten(0, 2).contiguous()

    def ours(self, policy):
        """The blocks' own calls, as a patched model makes them."""
        parts = (self.h, self.kv, self.kv)
        q, k, v = self.w_qkv.split(parts)
        d_q, d_k, d_v = self.d_qkv.split(parts, -1)
        gate, up = self.w_mlp.chunk(2)
        weights = {"o": self.w_o, "post_norm": self.gamma_mlp, "gate": gate, "up": up, "down": self.w_down,
                   "next_norm": self.gamma_qkv, "q": self.in_halves(q), "k": self.in_halves(k), "v": v}
        gradients = {"x": self.d_x, "q": self.in_halves(d_q.T).T.contiguous(), "k": self.in_halves(d_k.T).T.contiguous(),
                     "v": d_v.contiguous()}
        plan = segment.Plan(tuple(weights), EPS, head=self.head, policy=policy, angles="frequency")
        turns = self.positions, self.frequencies

        def run():
            saved = segment.forward(plan, self.y, self.x, weights, turns)
            made = {name: torch.empty_like(weight) for name, weight in weights.items()}
            into = {name: training.Fresh(tensor) for name, tensor in made.items()}
            d_y, d_x = segment.backward(plan, gradients, self.y, self.x, saved, weights, turns, into, True)
            return d_x, d_y, *made.values()
        with coda.tuning():
            run()
        return run

    def case(self):
        entries = {"coda": self.ours("fast"), "coda, lean": self.ours("lean"), "compile": self.compile_entry()}
        if coda_kernels:
            entries["coda-kernels"] = self.coda_kernels_entry()
        return Case("layer_fwd_bwd", self.products, entries, {})
