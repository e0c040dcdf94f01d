"""The piece of a decoder between two attentions, forward and backward, as plain functions on tensors.

    attention result, residual stream -> o_proj + residual + norm -> gated MLP -> down_proj + residual + next norm
    -> the next layer's rotated q, k and v

A segment may begin later (without attention: at a stream that is already summed) and end earlier (without q, k, v: at
the stream, or with one linear layer). Which of it there is says the set of its weights. T tokens are the rows of
everything; norms are delayed and pending gradients are joined as docs/training.md tells.
"""

from __future__ import annotations

import dataclasses

import torch

from .. import blocks, training
from .._core import partial_count

QKV = ("q", "k", "v", "q_bias", "k_bias", "v_bias", "q_norm", "k_norm")
TAIL = ("next_norm", *QKV, "out", "out_bias")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a segment is made of.

    names: of its weights, in the order they are given: o, o_bias (with attention), post_norm, gate, up, gate_bias, up_bias,
    down, down_bias; then next_norm with those of QKV, or with out, out_bias. head: columns of a head. policy: 'fast' or
    'lean', what is kept for the backward, 'none' where there is no backward. angles: what the turns of q and k are, 'table':
    cos and sin, two of (T, head/2), or 'frequency': positions (T,) and frequencies (head/2,), whose cosines and sines are
    taken times `scale`.
    """

    names: tuple[str, ...]
    eps: float
    gate: str = "swiglu"
    head: int = 0
    policy: str = "fast"
    angles: str = "table"
    scale: float = 1.0

    @property
    def has_mlp(self):
        return "gate" in self.names

    @property
    def tail(self):
        """Names of the results behind the last norm."""
        return ("q", "k", "v") if "q" in self.names else ("out",) if "out" in self.names else ()

    @property
    def results(self):
        """Names of what autograd knows of."""
        return (*(("x",) if self.has_mlp else ()), *self.tail)

    @property
    def kept(self):
        """Names of what the backward needs besides the results."""
        if self.policy == "none":
            return ()
        middle = ("middle",) if "o" in self.names else ()
        mlp = (*middle, "middle_sums", "gate", "up", *(("y",) if self.policy == "fast" else ())) if self.has_mlp else ()
        heads = tuple(f"{part}z" for part in "qk" if f"{part}_norm" in self.names)
        return (*mlp, *(("sums",) if self.tail else ()), *heads)

    def rope(self, turns):
        """The rotation by these turns."""
        names = {"table": ("cos", "sin"), "frequency": ("positions", "frequencies")}[self.angles]
        return blocks.Rope(self.head, scale=self.scale, **dict(zip(names, turns)))

    def norm(self, weights, name):
        """The norm with that weight; where a stream ends without a reader, one without weight stands in."""
        return blocks.RmsNorm(weights.get(name), self.eps, "gamma" if name in weights else "none")

    def shapes(self, rows, width, weights):
        """{name: (shape, is a sum in fp32)} of results and kept."""
        rest = {name: weights[weight].shape[0] for name, weight in
                {"q": "q", "k": "k", "v": "v", "out": "out", "qz": "q", "kz": "k"}.items() if weight in weights}
        mlp = {name: weights["gate"].shape[0] for name in ("y", "up", "gate") if self.has_mlp}
        columns = {"x": width, "middle": width, **mlp, **rest}
        sums = 1 if self.policy == "lean" else partial_count(width)
        return {name: ((rows, columns.get(name, sums)), name.endswith("sums")) for name in (*self.results, *self.kept)}


def forward(plan, attention, x, weights, turns):
    """{name: tensor} of plan.results and plan.kept. attention: (T, heads*head) or None; x: (T, d); weights: by name;
    turns: two tensors, where the segment ends with q, k and v."""
    found = {}
    if plan.has_mlp:
        stream = _mlp(plan, attention, x, weights, found)
    else:
        stream = blocks.enter_norm(x, plan.norm(weights, "next_norm"))
    if plan.tail:
        _read(plan, stream, weights, turns, found)
    return {name: found[name] for name in (*plan.results, *plan.kept)}


def _sums(plan, stream):
    return training.saved_stream(stream, plan.policy).sum_sq if plan.policy != "none" else None


def _mlp(plan, attention, x, weights, found):
    """Through the MLP; the stream behind it."""
    norm = plan.norm(weights, "post_norm")
    if attention is None:
        middle = blocks.enter_norm(x, norm)
    else:
        middle = blocks.residual_norm(attention, weights["o"], x, norm, weights.get("o_bias"))
    found["middle"] = middle.x
    arguments = (middle, norm, weights["gate"], weights["up"], plan.gate, weights.get("gate_bias"), weights.get("up_bias"))
    if plan.policy == "none":
        y = blocks.gated_mlp(*arguments)
    else:
        mlp = training.gated_mlp_saved(*arguments)
        y = mlp.y
        found |= {"middle_sums": _sums(plan, middle), "gate": mlp.gate, "up": mlp.up, "y": y}
    stream = blocks.residual_norm(y, weights["down"], found["middle"], plan.norm(weights, "next_norm"),
                                  weights.get("down_bias"))
    found["x"] = stream.x
    return stream


def _read(plan, stream, weights, turns, found):
    """What the next layer, or a linear one, makes of the stream."""
    norm = plan.norm(weights, "next_norm")
    found["sums"] = _sums(plan, stream)
    if "out" in weights:
        found["out"] = blocks.norm_linear(stream, norm, weights["out"], weights.get("out_bias"))
        return
    qkv = training.qkv_rope_saved(stream, norm, weights["q"], weights["k"], weights["v"],
                                  plan.rope(turns), **_qkv_options(plan, weights))
    found |= {"q": qkv.q, "k": qkv.k, "v": qkv.v, "qz": qkv.qz, "kz": qkv.kz}


def _qkv_options(plan, weights):
    biases = {name: weights[name] for name in ("q_bias", "k_bias", "v_bias") if name in weights}
    return biases | {name: plan.norm(weights, name) for name in ("q_norm", "k_norm") if name in weights}


def backward(plan, gradients, attention, x, saved, weights, turns, into, wants_attention):
    """(gradient by attention or None, gradient by x). gradients: by some of plan.results; x: only read where the segment
    begins without attention; saved: what forward gave; into: {name: tensor or training.Fresh} where gradients by weights go,
    the rest is frozen."""
    saved = {"x": x, "middle": x} | saved
    d_x = gradients.get("x")
    if any(name in gradients for name in plan.tail):
        d_x = _tail_backward(plan, gradients, d_x, saved, weights, turns, into)
    else:
        for name in TAIL:  # nobody read what is behind the last norm
            if isinstance(into.get(name), training.Fresh):
                into[name].tensor.zero_()
        if "down_bias" in into:
            _add_sum(d_x, into["down_bias"])
    if not plan.has_mlp:
        return None, d_x
    d_middle = _mlp_backward(plan, d_x, saved, weights, into)
    if "o" in into:
        training.add_weight_gradient(d_middle, attention, into["o"])
    return training.linear_backward(d_middle, weights["o"]) if wants_attention else None, d_middle


def _named(into, **names):
    """The gradients a block is given, by its own names for them."""
    return {theirs: into[ours] for theirs, ours in names.items() if ours in into}


def _add_sum(d_x, into):
    """The gradient by a bias behind which nothing reads the stream."""
    total = d_x.sum(0, dtype=torch.float32)
    if isinstance(into, training.Fresh):
        into.tensor.copy_(total)
    else:
        into.add_(total)


def _tail_backward(plan, gradients, d_x, saved, weights, turns, into):
    """The gradient by the stream that the next layer, or a linear one, reads; d_x: what reaches it past them, or None."""
    norm, stream = plan.norm(weights, "next_norm"), training.SavedStream(saved["x"], saved["sums"])
    d_out = [gradients[name] if name in gradients else torch.zeros_like(saved[name]) for name in plan.tail]
    if "out" in weights:
        pending = training.norm_linear_backward(*d_out, saved["out"], stream, norm, weights["out"], weights.get("out_bias"),
                                                into=_named(into, weight="out", bias="out_bias"))
    else:
        kept = training.SavedQkv(saved["q"], saved["k"], saved["v"], saved.get("qz"), saved.get("kz"))
        pending = training.qkv_rope_backward(
            *d_out, kept, stream, norm, weights["q"], weights["k"], weights["v"], plan.rope(turns),
            **_qkv_options(plan, weights), into={name: into[name] for name in QKV if name in into})
    if d_x is not None:
        pending.add_residual(d_x)
    return training.stream_backward(pending, stream, norm, into=_named(into, norm_weight="next_norm", bias="down_bias"))


def _mlp_backward(plan, d_x, saved, weights, into):
    """The gradient by the stream between attention and MLP."""
    norm, middle = plan.norm(weights, "post_norm"), training.SavedStream(saved["middle"], saved["middle_sums"])
    pending, y = training.gated_mlp_backward(
        d_x, weights["down"], training.GatedMlp(saved["gate"], saved["up"], saved.get("y")), middle, norm, weights["gate"],
        weights["up"], plan.gate, weights.get("gate_bias"), weights.get("up_bias"),
        into=_named(into, gate="gate", up="up", gate_bias="gate_bias", up_bias="up_bias"))
    if "down" in into:
        training.add_weight_gradient(d_x, y, into["down"])
    pending.add_residual(d_x)
    return training.stream_backward(pending, middle, norm, into=_named(into, norm_weight="post_norm", bias="o_bias"))
