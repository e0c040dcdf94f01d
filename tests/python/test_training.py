"""Blocks for training: a layer with its head against torch.autograd in double, errors in bf16 against stock's own."""

import dataclasses

import numpy as np
import pytest
import torch

import coda_cpp as coda
from coda_cpp import blocks, training
from support import ROUNDING, TORCH, generator, to_double

D, F, V, HEADS, KV_HEADS, SEQUENCES, LENGTH = 96, 112, 83, 4, 2, 2, 35
T = SEQUENCES * LENGTH
EPS = 1e-5


@dataclasses.dataclass
class Variant:
    head: int = 16
    kind: str = "gamma"
    bias: bool = False
    qk_norm: bool = False
    rotated: int = 0  # columns of each head, 0 for all
    interleaved: bool = False
    activation: str = "swiglu"

    @property
    def width(self):
        return self.rotated or self.head


VARIANTS = {
    "llama": Variant(),
    "qwen2": Variant(bias=True),
    "qwen3": Variant(qk_norm=True),
    "gemma": Variant(kind="one_plus_gamma", activation="geglu_tanh", qk_norm=True),
    "partial_rotary": Variant(head=24, rotated=8, bias=True),
    "interleaved": Variant(interleaved=True, activation="glu"),
    "no_weight": Variant(kind="none"),
}


def draw_parameters(variant, rng):
    """Parameters in fp32 by name."""
    draw = lambda *shape: torch.from_numpy((rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32))
    gamma = lambda width: 0.2 * torch.from_numpy(rng.standard_normal(width).astype(np.float32)) + (variant.kind == "gamma")
    queries, keys = HEADS * variant.head, KV_HEADS * variant.head
    rows = {"q": queries, "k": keys, "v": keys, "o": D, "gate": F, "up": F, "down": D}
    columns = {"o": queries, "down": F}
    parameters = {"x": 3 * draw(T, D), "head": 2 * draw(V, D)}
    for name, count in rows.items():
        parameters[name] = draw(count, columns.get(name, D))
        if variant.bias:
            parameters[f"{name}_bias"] = 0.3 * torch.from_numpy(rng.standard_normal(count).astype(np.float32))
    if variant.kind != "none":
        parameters |= {name: gamma(D) for name in ("input_norm", "post_norm", "next_norm")}
    if variant.qk_norm:
        parameters |= {name: gamma(variant.head) for name in ("q_norm", "k_norm")}
    return parameters


def angles():
    return torch.arange(LENGTH).repeat(SEQUENCES)


class Stock:
    """The layer and its head in torch, as transformers orders the roundings."""

    def __init__(self, variant, parameters):
        self.variant, self.p = variant, parameters

    def norm(self, x, name):
        wide = x if x.dtype == torch.float64 else x.float()
        normed = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)).to(x.dtype)
        if name not in self.p:
            return normed
        return normed * (self.p[name] + (self.variant.kind == "one_plus_gamma"))

    def linear(self, x, name):
        return torch.nn.functional.linear(x, self.p[name], self.p.get(f"{name}_bias"))

    def rotated(self, z, name, heads):
        v = self.variant
        z = z.view(T, heads, v.head)
        z = self.norm(z, f"{name}_norm") if v.qk_norm else z
        pairs = torch.arange(v.width // 2, dtype=torch.float64)
        angle = angles()[:, None].double() * 10000.0 ** (-2 * pairs / v.width)
        cos, sin = (f(angle)[:, None].to(z.dtype) for f in (torch.cos, torch.sin))
        turned, rest = z[..., :v.width], z[..., v.width:]
        if v.interleaved:
            a, b = turned[..., ::2], turned[..., 1::2]
            turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        else:
            a, b = turned.chunk(2, -1)
            turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        return torch.cat([turned, rest], -1)

    def attended(self, x):
        v = self.variant
        split = lambda z, heads: z.view(SEQUENCES, LENGTH, heads, v.head).transpose(1, 2)
        q, k = (split(self.rotated(self.linear(x, name), name, heads), heads)
                for name, heads in (("q", HEADS), ("k", KV_HEADS)))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, split(self.linear(x, "v"), KV_HEADS), is_causal=True,
                                                             enable_gqa=True)
        return y.transpose(1, 2).reshape(T, -1)

    def loss(self, targets):
        x = self.p["x"] + self.linear(self.attended(self.norm(self.p["x"], "input_norm")), "o")
        h = self.norm(x, "post_norm")
        act = {"swiglu": torch.nn.functional.silu, "glu": torch.sigmoid,
               "geglu_tanh": lambda z: torch.nn.functional.gelu(z, approximate="tanh")}[self.variant.activation]
        x = x + self.linear(act(self.linear(h, "gate")) * self.linear(h, "up"), "down")
        logits = self.linear(self.norm(x, "next_norm"), "head")
        return torch.nn.functional.cross_entropy(logits.to(torch.float64 if logits.dtype == torch.float64 else torch.float32), targets)


def stock_gradients(variant, parameters, targets, dtype):
    leaves = {name: p.to(TORCH[dtype]).requires_grad_() for name, p in parameters.items()}
    loss = Stock(variant, leaves).loss(targets)
    loss.backward()
    return loss.item(), {name: to_double(leaf.grad) for name, leaf in leaves.items()}


def coda_gradients(variant, parameters, targets, policy="fast", frozen=(), main_dtype=None, stream_gradient="stream"):
    """The loss and the gradients by name, from the blocks."""
    p = parameters
    norm = lambda name: blocks.RmsNorm(p.get(name), EPS, variant.kind)
    input_norm, next_norm = norm("input_norm"), norm("next_norm")
    heads = {name: blocks.RmsNorm(p[name], EPS, variant.kind) for name in ("q_norm", "k_norm") if variant.qk_norm}
    matrices = {name: p[name] for name in ("q", "k", "v", "o", "gate", "up", "down")}
    biases = {name: value for name, value in p.items() if name.endswith("_bias")}
    weights = blocks.LayerWeights(input_norm=input_norm, post_norm=norm("post_norm"), **matrices, **biases, **heads)
    rope = blocks.Rope(variant.head, width=variant.rotated, interleaved=variant.interleaved, positions=angles())
    shape = {"heads": HEADS, "kv_heads": KV_HEADS, "gate": variant.activation, "sequences": SEQUENCES}
    main = {name: torch.zeros_like(value, dtype=main_dtype or value.dtype) for name, value in p.items()
            if name != "x" and name not in frozen}
    into = {name: value for name, value in main.items() if name not in ("head", "input_norm")}

    start = blocks.enter_norm(p["x"], input_norm)
    stream, saved = training.transformer_layer_saved(start, weights, rope, next_norm, policy=policy, **shape)
    head = {"weight": main["head"]} if "head" in main else None
    loss, gradient = training.lm_head_loss_backward(stream, next_norm, p["head"], targets, into=head)
    gradient = training.transformer_layer_backward(gradient, training.saved_stream(stream, policy), saved, weights, rope,
                                                   next_norm, into=into, stream_gradient=stream_gradient, **shape)
    first = {"norm_weight": main["input_norm"]} if "input_norm" in main else None
    d_x = training.stream_backward(gradient, training.saved_stream(start), input_norm, into=first,
                                   stream_gradient=stream_gradient)
    main["x"] = d_x if stream_gradient == "stream" else d_x[1]
    return loss.value, main, saved


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


@pytest.fixture(params=VARIANTS)
def variant(request):
    return VARIANTS[request.param]


@pytest.fixture
def case(variant):
    rng = generator()
    targets = torch.from_numpy(rng.integers(0, V, T))
    targets[::7] = -100
    return variant, draw_parameters(variant, rng), targets


@pytest.mark.parametrize("policy", ["fast", "lean"])
def test_single_precision_gradients(case, policy):
    variant, parameters, targets = case
    loss, expected = stock_gradients(variant, parameters, targets, "f64")
    got_loss, got, _ = coda_gradients(variant, parameters, targets, policy)
    assert got_loss == pytest.approx(loss, rel=1e-5)
    assert got.keys() == expected.keys()
    for name, gradient in got.items():
        # Keys of all tokens moved alike change no softmax but for their rotation: terms of the size of k's cancel.
        scale = np.abs(expected["k" if name == "k_bias" else name]).max()
        assert np.abs(to_double(gradient) - expected[name]).max() <= 3e-5 * scale, name


@pytest.mark.parametrize("main_dtype, stream_gradient", [(None, "stream"), (torch.float32, "stream"), (torch.float32, "f32")])
def test_half_precision_gradients_are_no_worse_than_stock(case, main_dtype, stream_gradient):
    variant, parameters, targets = case
    parameters = {name: p.bfloat16() for name, p in parameters.items()}
    exact_loss, exact = stock_gradients(variant, parameters, targets, "f64")
    stock_loss, stock = stock_gradients(variant, parameters, targets, "bf16")
    loss, got, _ = coda_gradients(variant, parameters, targets, main_dtype=main_dtype, stream_gradient=stream_gradient)
    assert abs(loss - exact_loss) <= 2 * abs(stock_loss - exact_loss) + ROUNDING["bf16"] * exact_loss
    for name, gradient in got.items():
        ours, theirs = (rms(to_double(g) - exact[name]) if isinstance(g, torch.Tensor) else rms(g - exact[name])
                        for g in (gradient, stock[name]))
        assert ours <= 2 * theirs + ROUNDING["bf16"] * rms(exact[name]), name


def test_frozen_parameters_change_no_other_gradient():
    variant, rng = VARIANTS["qwen2"], generator()
    parameters, targets = draw_parameters(variant, rng), torch.from_numpy(rng.integers(0, V, T))
    _, everything, _ = coda_gradients(variant, parameters, targets)
    for frozen in (("q", "gate", "head", "post_norm"), ("k", "v", "down", "input_norm", "up_bias"), tuple(parameters)):
        _, some, _ = coda_gradients(variant, parameters, targets, frozen=frozen)
        assert some.keys() == everything.keys() - (set(frozen) - {"x"})
        for name, gradient in some.items():
            assert torch.equal(gradient, everything[name]), name


def test_lean_keeps_less():
    variant, rng = VARIANTS["llama"], generator()
    parameters = {name: p.bfloat16() for name, p in draw_parameters(variant, rng).items()}
    targets = torch.from_numpy(rng.integers(0, V, T))
    kept = {policy: coda_gradients(variant, parameters, targets, policy)[2].bytes // T for policy in ("fast", "lean")}
    q, kv = HEADS * variant.head, KV_HEADS * variant.head
    # x twice, attention's result, q, k, v, gate and up in bf16; log-sum-exp and two norms' sums in fp32.
    assert kept["lean"] == 2 * (2 * D + 2 * q + 2 * kv + 2 * F) + 4 * HEADS + 8
    assert kept["fast"] == kept["lean"] + 2 * F + 2 * 4  # the activation; two partial sums a norm instead of one


@pytest.mark.parametrize("fresh", [False, True], ids=["added", "fresh"])
@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor])
def test_norm_linear_and_gated_mlp_alone(make, fresh):
    rng = generator()
    draw = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
    x, gamma, gate, up, down, weight = draw(T, D), 1 + draw(D), draw(F, D), draw(F, D), draw(D, F), draw(V, D)
    d_out, d_y = draw(T, V), draw(T, D)
    leaf = lambda array: torch.from_numpy(array).double().requires_grad_()
    tx, tg, tgate, tup, tweight = map(leaf, (x, gamma, gate, up, weight))
    normed = tx * torch.rsqrt(tx.square().mean(1, keepdim=True) + EPS) * tg
    y = torch.nn.functional.silu(normed @ tgate.T) * (normed @ tup.T)
    loss = ((normed @ tweight.T) * torch.from_numpy(d_out)).sum() + ((y @ torch.from_numpy(down).double().T) * torch.from_numpy(d_y)).sum()
    loss.backward()

    x, gamma, gate, up, down, weight, d_out, d_y = map(make, (x, gamma, gate, up, down, weight, d_out, d_y))
    norm = blocks.RmsNorm(gamma, EPS)
    stream = blocks.enter_norm(x, norm)
    saved = training.saved_stream(stream)
    zeros = lambda like: make(np.zeros_like(np.asarray(like)))
    given = lambda like: make(np.full_like(np.asarray(like), np.nan)) if fresh else zeros(like)
    main = lambda tensor: training.Fresh(tensor) if fresh else tensor
    d_gate, d_up, d_gamma, d_weight = given(gate), given(up), zeros(gamma), given(weight)
    into = {"gate": main(d_gate), "up": main(d_up)}
    mlp = training.gated_mlp_saved(stream, norm, gate, up)
    out = blocks.norm_linear(stream, norm, weight)
    first = training.norm_linear_backward(d_out, out, saved, norm, weight, into={"weight": main(d_weight)})
    second, again = training.gated_mlp_backward(d_y, down, mlp, saved, norm, gate, up, remake_y=True, into=into)
    np.testing.assert_allclose(again, mlp.y, rtol=1e-5, atol=1e-6)
    d_x = training.stream_backward(first, saved, norm, into={"norm_weight": d_gamma})
    second.add_residual(d_x)
    d_x = training.stream_backward(second, saved, norm, into={"norm_weight": d_gamma})
    assert isinstance(d_x, type(x))
    for got, leaf in ((d_x, tx), (d_gamma, tg), (d_weight, tweight), (d_gate, tgate), (d_up, tup)):
        expected = leaf.grad.numpy()
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


def test_a_stream_gradient_in_f32_comes_beside_that_of_the_streams_dtype():
    rng = generator()
    x, gamma, weight, d_out = (torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
                               for shape in ((7, 24), (24,), (16, 24), (7, 16)))
    for dtype in (torch.bfloat16, torch.float32):
        norm = blocks.RmsNorm(gamma.to(dtype), EPS)
        stream = blocks.enter_norm(x.to(dtype), norm)
        saved, out = training.saved_stream(stream), blocks.norm_linear(stream, norm, weight.to(dtype))
        gradient = training.norm_linear_backward(d_out.to(dtype), out, saved, norm, weight.to(dtype))
        d_x = training.stream_backward(gradient, saved, norm)
        factor, residual = training.stream_backward(gradient, saved, norm, stream_gradient="f32")
        assert residual.dtype == torch.float32 and torch.equal(factor, d_x) and torch.equal(residual.to(dtype), d_x)
        gradient.add_residual(residual)
        _, twice = training.stream_backward(gradient, saved, norm, stream_gradient="f32")
        np.testing.assert_allclose(twice, 2 * residual, rtol=0, atol=1e-5 * residual.abs().max().item())


def test_attention_is_torchs():
    rng = generator()
    draw = lambda heads: torch.from_numpy(rng.standard_normal((T, heads * 16)).astype(np.float32))
    q, k, v, d_out = draw(HEADS), draw(KV_HEADS), draw(KV_HEADS), draw(HEADS)
    leaves = [z.double().requires_grad_() for z in (q, k, v)]
    split = lambda z: z.view(SEQUENCES, LENGTH, -1, 16).transpose(1, 2)
    out = torch.nn.functional.scaled_dot_product_attention(*map(split, leaves), is_causal=True, enable_gqa=True)
    out = out.transpose(1, 2).reshape(T, -1)
    out.backward(d_out.double())
    shape = {"heads": HEADS, "kv_heads": KV_HEADS, "sequences": SEQUENCES}
    saved = training.causal_attention_saved(q, k, v, **shape)
    np.testing.assert_allclose(saved.out, out.detach(), rtol=1e-5, atol=1e-5)
    for got, leaf in zip(training.causal_attention_backward(d_out, q, k, v, saved, **shape), leaves, strict=True):
        np.testing.assert_allclose(got, leaf.grad, rtol=1e-5, atol=1e-5 * leaf.grad.abs().max().item())


def test_mistakes_name_call_and_argument():
    rng = np.random.default_rng(1)
    x, gamma, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 8), (8,), (5, 8)))
    norm = blocks.RmsNorm(gamma)
    stream = blocks.enter_norm(x, norm)
    saved = training.saved_stream(stream)
    out = blocks.norm_linear(stream, norm, weight)
    with pytest.raises(ValueError) as caught:
        training.norm_linear_backward(out, out, saved, norm, weight, into={"gamma": gamma})
    assert str(caught.value) == "norm_linear_backward: into names 'gamma', expected some of weight, bias"
    with pytest.raises(TypeError) as caught:
        training.norm_linear_backward(out, out, saved, norm, weight, into=[gamma])
    assert str(caught.value) == "norm_linear_backward: argument 'into' is a list, expected a dict of names to tensors"
    with pytest.raises(ValueError) as caught:
        training.saved_stream(stream, "tiny")
    assert str(caught.value) == "saved_stream: policy is 'tiny', expected one of 'fast', 'lean'"
    gradient = training.norm_linear_backward(out, out, saved, norm, weight)
    with pytest.raises(ValueError) as caught:
        training.stream_backward(gradient, saved, norm, stream_gradient="f64")
    assert str(caught.value) == "stream_backward: stream_gradient is 'f64', expected one of 'stream', 'f32'"
    gradient.add_residual(x)
    with pytest.raises(ValueError) as caught:
        gradient.add_residual(x)
    assert str(caught.value) == ("add_residual: there is a residual gradient already, expected one: add them first")
    with pytest.raises(ValueError, match="^stream_backward: into.norm_weight has shape .5, 8.") as caught:
        training.stream_backward(gradient, saved, norm, into={"norm_weight": weight.copy()})
    assert isinstance(caught.value, coda.Error)


def test_saved_objects_are_made_of_their_tensors():
    """A backward runs on the tensors of a forward, which may have been kept by others: nothing is copied."""
    rng = np.random.default_rng(2)
    x, gamma, gate, up, down = (torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
                                for shape in ((5, 8), (8,), (16, 8), (16, 8), (8, 16)))
    norm, d_out = blocks.RmsNorm(gamma), torch.ones(5, 8)
    stream = blocks.enter_norm(x, norm)
    kept, mlp = training.saved_stream(stream), training.gated_mlp_saved(stream, norm, gate, up)
    made, remade = training.SavedStream(kept.x, kept.sum_sq), training.GatedMlp(mlp.gate, mlp.up)
    assert made.x.data_ptr() == kept.x.data_ptr() and remade.y is None
    results = []
    for saved, each in ((kept, mlp), (made, remade)):
        gradient, y = training.gated_mlp_backward(d_out, down, each, saved, norm, gate, up)
        results.append((training.stream_backward(gradient, saved, norm), y))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*results))
    torch.testing.assert_close(training.linear_backward(d_out, down), d_out @ down)
    into = torch.ones(8, 16)
    training.add_weight_gradient(d_out, mlp.y, into)
    torch.testing.assert_close(into, 1 + d_out.T @ mlp.y)
    with pytest.raises(ValueError) as caught:
        training.SavedStream(x.T, kept.sum_sq)
    assert str(caught.value) == ("SavedStream: argument 'x' of shape [8, 5] has strides [1, 8], expected contiguous rows: pass "
                                 "tensor.contiguous()")


def test_fresh_gradients_of_no_tokens_are_zero():
    gamma, weight, bias = torch.ones(8), torch.ones(5, 8), torch.ones(5)
    norm, x, targets = blocks.RmsNorm(gamma), torch.empty(0, 8), torch.empty(0, dtype=torch.int64)
    stream = blocks.enter_norm(x, norm)
    kept, nan = training.saved_stream(stream), float("nan")
    made = {name: torch.full_like(like, nan) for name, like in (("weight", weight), ("bias", bias), ("norm", gamma))}
    fresh = {name: training.Fresh(tensor) for name, tensor in made.items()}
    out = blocks.norm_linear(stream, norm, weight, bias)
    pending = training.norm_linear_backward(out, out, kept, norm, weight, bias, into={name: fresh[name] for name in ("weight", "bias")})
    training.stream_backward(pending, kept, norm, into={"norm_weight": fresh["norm"]})
    assert not any(tensor.any() for tensor in made.values())
    made["weight"].fill_(nan)
    training.add_weight_gradient(out, x, fresh["weight"])
    assert not made["weight"].any()
    made["weight"].fill_(nan)
    training.lm_head_loss_backward(stream, norm, weight, targets, "sum", into={"weight": fresh["weight"]})
    assert not made["weight"].any()
