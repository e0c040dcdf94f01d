"""The launches of functional.py, one for each kind of call and its options. A compiler takes what is here as constant."""

from __future__ import annotations

from typing import Any, Callable

from .. import _core, epilogues
from ..errors import ValueError
from .constants import constant
from .derived import derived
from .launch import Launch

ROPE = ("head", "width", "interleaved", "angles", "scale")


def _single(program: _core.Program) -> Launch:
    return Launch("single", "single", (derived(program),))


def _activated(name: str, has_bias: bool, activation: Callable[[_core.Value], _core.Value] | None) -> _core.Program:
    builder = _core.Builder(name)
    z = builder.acc() + builder.load_row("bias").named("bias") if has_bias else builder.acc()
    z = z.named("z") if has_bias else z
    builder.store("out", (activation(z) if activation else z).named("out"))
    return builder.build()


@constant
def linear(activation: str, has_bias: bool) -> Launch:
    """out = activation(acc (+ bias)); '' is none. Raises ValueError for an unknown activation."""
    if not activation:
        return _single(epilogues.bias() if has_bias else epilogues.identity())
    known = _core.activation_names()
    if activation not in known:
        raise ValueError(f"linear_act: argument 'activation' is '{activation}', expected one of {', '.join(known)}")
    return _single(epilogues.bias(activation) if has_bias else _activated(activation, False, getattr(_core, activation)))


@constant
def sigmoid(has_bias: bool) -> Launch:
    return _single(_activated("sigmoid", has_bias, _core.sigmoid))


@constant
def gated(gate: str, has_bias: bool) -> Launch:
    return Launch("single", "pair", (derived(epilogues.gated(gate, bias=has_bias)),))


@constant
def residual_rms(weight: str, columns: int, has_bias: bool) -> Launch:
    return _single(epilogues.residual_rms(weight=weight, partial_width=_core.partial_width(columns), bias=has_bias))


@constant
def rms_entry(weight: str, columns: int) -> Launch:
    return _single(epilogues.rms_entry(weight=weight, partial_width=_core.partial_width(columns)))


@constant
def normed(weight: str, count: int, eps: float) -> Launch:
    """out = x·r·γ, with r finished from the partial sums of an rms_entry: a norm that no product finishes."""
    builder = _core.Builder("rmsnorm")
    rstd = _core.rsqrt(builder.load_partials("sum_sq").named("sum_sq") / float(count) + eps).named("rstd")
    y = builder.load_tile("x").named("x") * rstd
    if weight != "none":
        gamma = builder.load_row("gamma").named("gamma")
        y = y * (1.0 + gamma if weight == "one_plus_gamma" else gamma)
    builder.store("out", y.named("out"))
    return _single(builder.build())


@constant
def rms(count: int, eps: float, has_bias: bool) -> Launch:
    return _single(epilogues.rms(count=count, eps=eps, bias=has_bias))


@constant
def rms_gated(gate: str, count: int, eps: float, has_bias: bool) -> Launch:
    return Launch("single", "pair", (derived(epilogues.rms_gated(gate, count=count, eps=eps, bias=has_bias)),))


@constant
def rms_qkv(count: int, eps: float, has_bias: bool, *rope: Any) -> Launch:
    """q and k turned, v not. rope: the values of ROPE."""
    turned = derived(epilogues.rms_rope(count=count, eps=eps, bias=has_bias, **dict(zip(ROPE, rope))))
    return Launch("single", "concat", (turned, turned, derived(epilogues.rms(count=count, eps=eps, bias=has_bias))))


@constant
def qk_norm_rope(weight: str, eps: float, has_bias: bool, *rope: Any) -> Launch:
    return _single(epilogues.qk_norm_rope(weight=weight, eps=eps, bias=has_bias, **dict(zip(ROPE, rope))))


@constant
def lse(ignore_index: int, store_logits: bool) -> Launch:
    """Its partials are as wide as a GPU's kernels make them."""
    return _single(epilogues.lse(partial_width=128, ignore_index=ignore_index, store_logits=store_logits))
