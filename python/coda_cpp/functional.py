"""coda's products as PyTorch functions, with autograd, torch.compile and autocast. docs/functional.md is the guide.

    from coda_cpp import functional as CF

    hidden = CF.linear_swiglu(x, gate, up)         # silu(x @ gate.T) * (x @ up.T), one launch
    loss = CF.linear_cross_entropy(x, head, targets)  # its logits are never whole in memory

x is (..., K), any leading dimensions and strides; weights are (N, K), as a checkpoint has them; both f32, bf16 or f16, of
one dtype (under torch.autocast they are rounded to its). Every input that requires grad gets its gradient, by the backward
that coda derives; frozen ones cost nothing. A function's own epilogue backward is an elementwise launch. Nothing is written
in place; gradients of gradients are refused.

`main_grad=True` adds a weight's gradient to `weight.main_grad`, a tensor of f32 or the weight's dtype, by the product that
makes it; autograd then gets None. Of a stacked weight it is one tensor, whose rows the parts' gradients are added to.

Errors: ValueError, TypeError and NotImplementedError that name the call and the argument; IndexError for targets on the
CPU; ImportError without a torch that fits.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from . import _torch  # first: says what is wrong with a torch that does not fit
import torch

from ._torch import launches, ops  # ops: registers them
from ._torch.arguments import Factors, Stack, expanded, require_tensor
from ._torch.frequencies import frequencies
from ._torch.launch import Launch
from ._torch.loss import linear_cross_entropy, linear_cross_entropy_forward
from ._torch.options import NUMBER, require_base, require_eps, require_rotated
from .errors import TypeError, ValueError
from .gemm import elementwise, gemm

__all__ = ["NormedStream", "Rope", "elementwise", "gemm", "linear", "linear_act", "linear_cross_entropy",
           "linear_cross_entropy_forward", "linear_geglu", "linear_qknorm_rope", "linear_residual_rmsnorm",
           "linear_sigmoid", "linear_swiglu", "normed_stream", "rmsnorm", "rmsnorm_linear", "rmsnorm_qkv_rope",
           "rmsnorm_swiglu"]

Tensor = torch.Tensor
_PAIR = Stack(("gate", "up"))


class NormedStream(NamedTuple):
    """A residual stream on its way into a norm: what the rmsnorm functions take in the place of `x` and `norm_weight`, so
    that the norm makes no pass of its own. `x` (..., d) is the stream; `h` is x * norm_weight, `sum_sq` (..., 1) f32 the sum
    of squares: norm = h * rsqrt(sum_sq / d + eps)."""

    x: Tensor
    h: Tensor
    sum_sq: Tensor


class Rope(NamedTuple):
    """A rotary embedding. head: columns of a head; width: rotated ones at its start, 0 for all. Pairs are halves of the
    width, as in Hugging Face LLaMA, or neighbours (`interleaved`), as in GPT-J.

    Angles are positions * base^(-2p/width), or positions * frequencies[p], whatever the base, or come as cos and sin alone.
    positions: (...), of an integer dtype or f32; frequencies: (width/2,) f32; cos and sin: (..., width/2); missing leading
    dimensions are repeated. scale multiplies cos and sin. None of them gets a gradient."""

    head: int
    positions: Tensor | None = None
    cos: Tensor | None = None
    sin: Tensor | None = None
    frequencies: Tensor | None = None
    base: float = 10000.0
    width: int = 0
    interleaved: bool = False
    scale: float = 1.0


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, main_grad: bool = False) -> Tensor:
    """x @ weight.T (+ bias). bias: (N,)."""
    factors = Factors("linear", x, {"weight": weight}, main_grad)
    return factors.run(launches.linear("", bias is not None), _given(bias))[0]


def linear_act(x: Tensor, weight: Tensor, activation: str, bias: Tensor | None = None, *,
               main_grad: bool = False) -> Tensor:
    """activation(x @ weight.T (+ bias)). activation: one of coda_cpp.activation_names(), such as 'gelu'."""
    factors = Factors("linear_act", x, {"weight": weight}, main_grad)
    if not activation:
        raise ValueError("linear_act: argument 'activation' is empty, expected a name such as 'gelu': without one, use linear")
    return factors.run(launches.linear(activation, bias is not None), _given(bias))[0]


def linear_sigmoid(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, main_grad: bool = False) -> Tensor:
    """sigmoid(x @ weight.T (+ bias)): gates."""
    factors = Factors("linear_sigmoid", x, {"weight": weight}, main_grad)
    return factors.run(launches.sigmoid(bias is not None), _given(bias))[0]


def linear_swiglu(x: Tensor, gate: Tensor, up: Tensor | None = None, *, gate_bias: Tensor | None = None,
                  up_bias: Tensor | None = None, main_grad: bool = False) -> Tensor:
    """silu(x @ gate.T (+ gate_bias)) * (x @ up.T (+ up_bias)). Without `up`, `gate` is both, (2f, K), gate first."""
    return _gated("linear_swiglu", "swiglu", x, gate, up, gate_bias, up_bias, main_grad)


def linear_geglu(x: Tensor, gate: Tensor, up: Tensor | None = None, *, gate_bias: Tensor | None = None,
                 up_bias: Tensor | None = None, approximate: str = "none", main_grad: bool = False) -> Tensor:
    """gelu(x @ gate.T (+ gate_bias)) * (x @ up.T (+ up_bias)); approximate: 'none' or 'tanh', as torch's gelu."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"linear_geglu: argument 'approximate' is '{approximate}', expected 'none' or 'tanh'")
    return _gated("linear_geglu", "geglu" if approximate == "none" else "geglu_tanh", x, gate, up, gate_bias, up_bias,
                  main_grad)


def linear_residual_rmsnorm(x: Tensor, weight: Tensor, residual: Tensor, norm_weight: Tensor | None = None, *,
                            bias: Tensor | None = None, one_plus: bool = False, main_grad: bool = False) -> NormedStream:
    """The stream x @ weight.T (+ bias) + residual with what the norm behind it needs. residual: (..., N). norm_weight:
    (N,), None for a norm without; one_plus: 1 + norm_weight instead (Gemma)."""
    factors = Factors("linear_residual_rmsnorm", x, {"weight": weight}, main_grad)
    launch = launches.residual_rms(_kind(norm_weight, one_plus), factors.columns, bias is not None)
    named = {"residual": factors.rows("residual", residual), "gamma": norm_weight, "bias": bias}
    stream, *h, sum_sq = factors.run(launch, _ordered(launch, named))
    return NormedStream(stream, h[0] if h else stream, sum_sq.sum(-1, keepdim=True))


def normed_stream(x: Tensor, norm_weight: Tensor | None = None, *, one_plus: bool = False) -> NormedStream:
    """A stream on its way into several functions that norm it: one elementwise pass for all of them."""
    factors = Factors("normed_stream", x, {}, False)
    h, sum_sq = _entered(factors, norm_weight, one_plus)
    stream = (factors.x, h, sum_sq.sum(-1, keepdim=True))
    return NormedStream(*(part.squeeze(0) for part in stream) if factors.is_vector else stream)


def rmsnorm(x: Tensor | NormedStream, norm_weight: Tensor | None = None, *, eps: float = 1e-6,
            one_plus: bool = False) -> Tensor:
    """rms_norm(x) * norm_weight, for a reader that does not finish norms itself, such as linear_cross_entropy: a pass for the
    sums and one for the result, so nothing between is rounded. x may be a NormedStream; norm_weight is then None."""
    factors, sum_sq = _normed("rmsnorm", x, norm_weight if isinstance(x, NormedStream) else None, {}, None, eps,
                              one_plus, False)
    _require_norm(factors, norm_weight)
    launch = launches.normed(_kind(norm_weight, one_plus), factors.depth, eps)
    out, = factors.run_pass(launch, _ordered(launch, {"x": factors.x, "sum_sq": sum_sq, "gamma": norm_weight}))
    return out.squeeze(0) if factors.is_vector else out


def rmsnorm_linear(x: Tensor | NormedStream, norm_weight: Tensor | None, weight: Tensor, bias: Tensor | None = None, *,
                   eps: float = 1e-6, one_plus: bool = False, main_grad: bool = False) -> Tensor:
    """rms_norm(x) * norm_weight @ weight.T (+ bias). x may be a NormedStream; norm_weight is then None."""
    factors, sum_sq = _normed("rmsnorm_linear", x, norm_weight, {"weight": weight}, None, eps, one_plus, main_grad)
    return factors.run(launches.rms(factors.depth, eps, bias is not None), (sum_sq, *_given(bias)))[0]


def rmsnorm_swiglu(x: Tensor | NormedStream, norm_weight: Tensor | None, gate: Tensor, up: Tensor | None = None, *,
                   gate_bias: Tensor | None = None, up_bias: Tensor | None = None, eps: float = 1e-6,
                   one_plus: bool = False, main_grad: bool = False) -> Tensor:
    """linear_swiglu of rms_norm(x) * norm_weight. x may be a NormedStream; norm_weight is then None."""
    factors, sum_sq = _normed("rmsnorm_swiglu", x, norm_weight, *_pair(gate, up), eps, one_plus, main_grad)
    biases = _all_or_none("rmsnorm_swiglu", {"gate_bias": gate_bias, "up_bias": up_bias})
    launch = launches.rms_gated("swiglu", factors.depth, eps, len(biases) > 0)
    return factors.run(launch, _ordered(launch, {"sum_sq": sum_sq, **biases}))[0]


def rmsnorm_qkv_rope(x: Tensor | NormedStream, norm_weight: Tensor | None, q: Tensor, k: Tensor | None = None,
                     v: Tensor | None = None, *, rope: Rope, sizes: Sequence[int] | None = None,
                     biases: Sequence[Tensor] | None = None, eps: float = 1e-6, one_plus: bool = False,
                     main_grad: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """The projections of rms_norm(x) * norm_weight to q, k and v, one launch; q and k rotated. Without `k` and `v`, `q` is
    all three stacked, and `sizes` their rows. biases: of q, k and v. x may be a NormedStream; norm_weight is then None."""
    call = "rmsnorm_qkv_rope"
    if sizes is not None and (k is not None or v is not None):
        raise ValueError(f"{call}: argument 'sizes' is given with 'k' or 'v', expected it with a stacked weight alone: leave "
                         "it out")
    if biases is not None and not isinstance(biases, (tuple, list)):
        raise TypeError(f"{call}: argument 'biases' is a {type(biases).__name__}, expected a tuple of tensors, of q, k and v")
    if biases is not None and len(biases) != 3:
        raise ValueError(f"{call}: argument 'biases' has {len(biases)} entries, expected 3: of q, k and v")
    weights, stack = ({"q": q, "k": k, "v": v}, None) if k is not None else _stacked(call, q, sizes)
    factors, sum_sq = _normed(call, x, norm_weight, weights, stack, eps, one_plus, main_grad)
    options, angles = _rope(call, rope, factors)
    launch = launches.rms_qkv(factors.depth, eps, biases is not None, *options)
    operands: list[Tensor] = []
    for part, bias in zip(launch.parts, biases if biases is not None else (None,) * 3):
        named = {"sum_sq": sum_sq, "bias": bias, **angles}
        operands += [named[name] for name in part.input_names]
    return tuple(factors.run(launch, operands))


def linear_qknorm_rope(x: Tensor, weight: Tensor, norm_weight: Tensor | None, *, rope: Rope, bias: Tensor | None = None,
                       eps: float = 1e-6, one_plus: bool = False, main_grad: bool = False) -> Tensor:
    """The projection x @ weight.T (+ bias) with each head normed (Qwen3) and rotated. norm_weight: (head,)."""
    factors = Factors("linear_qknorm_rope", x, {"weight": weight}, main_grad)
    require_eps("linear_qknorm_rope", "argument 'eps' is", eps)
    options, angles = _rope("linear_qknorm_rope", rope, factors)
    launch = launches.qk_norm_rope(_kind(norm_weight, one_plus), eps, bias is not None, *options)
    return factors.run(launch, _ordered(launch, {"gamma": norm_weight, "bias": bias, **angles}))[0]


def _gated(call: str, name: str, x: Tensor, gate: Tensor, up: Tensor | None, gate_bias: Tensor | None,
           up_bias: Tensor | None, main_grad: bool) -> Tensor:
    weights, stack = _pair(gate, up)
    factors = Factors(call, x, weights, main_grad, stack)
    biases = _all_or_none(call, {"gate_bias": gate_bias, "up_bias": up_bias})
    return factors.run(launches.gated(name, len(biases) > 0), tuple(biases.values()))[0]


def _given(*tensors: Tensor | None) -> tuple[Tensor, ...]:
    return tuple(tensor for tensor in tensors if tensor is not None)


def _ordered(launch: Launch, named: dict[str, Any]) -> list[Tensor]:
    return [named[name] for name in launch.parts[0].input_names]


def _kind(norm_weight: Tensor | None, one_plus: bool) -> str:
    return "none" if norm_weight is None else "one_plus_gamma" if one_plus else "gamma"


def _pair(gate: Tensor, up: Tensor | None) -> tuple[dict[str, Tensor], Stack | None]:
    return ({"gate": gate, "up": up}, None) if up is not None else ({"gate": gate}, _PAIR)


def _stacked(call: str, weight: Tensor, sizes: Sequence[int] | None) -> tuple[dict[str, Tensor], Stack]:
    if sizes is None:
        raise ValueError(f"{call}: argument 'k' is missing, expected q, k and v, or one stacked weight as 'q' with 'sizes', "
                         "the rows of each")
    return {"q": weight}, Stack(("q", "k", "v"), sizes)


def _all_or_none(call: str, biases: dict[str, Tensor | None]) -> dict[str, Tensor]:
    given = {name: bias for name, bias in biases.items() if bias is not None}
    for name in biases:
        if given and name not in given:
            raise ValueError(f"{call}: argument '{name}' is missing, expected a bias for both or none: pass zeros")
    return given


def _normed(call: str, x: Tensor | NormedStream, norm_weight: Tensor | None, weights: dict[str, Tensor], stack: Stack | None,
            eps: float, one_plus: bool, main_grad: bool) -> tuple[Factors, Tensor]:
    """The product behind a norm: h in the place of x, and the sums of squares."""
    require_eps(call, "argument 'eps' is", eps)
    if isinstance(x, NormedStream):
        if norm_weight is not None:
            raise ValueError(f"{call}: argument 'norm_weight' is given with a NormedStream, expected None: the stream has "
                             "been multiplied by it")
        factors = Factors(call, x.h, weights, main_grad, stack)
        return factors, factors.rows("x.sum_sq", x.sum_sq)
    factors = Factors(call, x, weights, main_grad, stack)
    factors.x, sum_sq = _entered(factors, norm_weight, one_plus)
    return factors, sum_sq


def _entered(factors: Factors, norm_weight: Tensor | None, one_plus: bool) -> tuple[Tensor, Tensor]:
    """x * norm_weight and the partial sums of squares of x."""
    _require_norm(factors, norm_weight)
    launch = launches.rms_entry(_kind(norm_weight, one_plus), factors.depth)
    *h, sum_sq = factors.run_pass(launch, (factors.x, *_given(norm_weight)))
    return h[0] if h else factors.x, sum_sq


def _require_norm(factors: Factors, norm_weight: Tensor | None) -> None:
    if factors.depth == 0:
        raise ValueError(f"{factors.call}: argument 'x' has shape {list(factors.given.shape)}, expected (..., K) with K above "
                         "0: a norm is a mean over K")
    if norm_weight is None:
        return
    require_tensor(factors.call, "norm_weight", norm_weight)
    if norm_weight.shape != (factors.depth,):
        raise ValueError(f"{factors.call}: argument 'norm_weight' has shape {list(norm_weight.shape)}, expected "
                         f"[{factors.depth}], the last dimension of 'x'")


def _rope(call: str, rope: Rope, factors: Factors) -> tuple[tuple[Any, ...], dict[str, Tensor]]:
    """The options of a rotated program, the values of launches.ROPE, and its operands by name."""
    _require_rope(call, rope)
    leading = factors.x.shape[:-1]
    if rope.cos is not None:
        source = "table"
        angles = {name: expanded(call, f"rope.{name}", getattr(rope, name), leading, 1) for name in ("cos", "sin")}
    else:
        source, given = "frequency", rope.frequencies
        angles = {"positions": expanded(call, "rope.positions", rope.positions, leading, 0),
                  "frequencies": expanded(call, "rope.frequencies", given, torch.Size(), 1) if given is not None
                  else frequencies(float(rope.base), rope.width or rope.head, factors.x.device)}
    return (rope.head, rope.width, rope.interleaved, source, float(rope.scale)), angles


def _require_rope(call: str, rope: Rope) -> None:
    if not isinstance(rope, Rope):
        raise TypeError(f"{call}: argument 'rope' is a {type(rope).__name__}, expected a functional.Rope")
    require_rotated(call, rope.head, rope.width)
    if not isinstance(rope.scale, NUMBER):
        raise TypeError(f"{call}: argument 'rope' has scale {rope.scale!r}, expected a number")
    require_base(call, "argument 'rope' has base", rope.base)
    if rope.cos is None and rope.sin is None:
        is_clear = rope.positions is not None
    else:
        is_clear = rope.cos is not None and rope.sin is not None and rope.positions is None and rope.frequencies is None
    if not is_clear:
        given = [name for name in ("positions", "frequencies", "cos", "sin") if getattr(rope, name) is not None]
        raise ValueError(f"{call}: argument 'rope' has {', '.join(given) or 'no angles'}, expected positions, with or without "
                         "frequencies, or cos and sin")
