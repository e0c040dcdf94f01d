"""The functions of coda_cpp.functional beside compositions of PyTorch: what the tests of both devices go through."""

import dataclasses
from typing import Callable

import torch
import torch.nn.functional as F

import coda_cpp as coda
from coda_cpp import functional as CF

D, N, HEAD, VOCABULARY = 64, 128, 32, 200
WIDE = 65 * 64  # more sums of 64 columns than a load finishes
EPS = 1e-6
ROUNDING = {torch.float32: 2.0**-22, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


@dataclasses.dataclass(frozen=True)
class Case:
    """ours and theirs: functions of a dict of tensors. shapes: of the leaves besides x; those that begin with ... have the
    leading dimensions of x."""

    ours: Callable
    theirs: Callable
    shapes: dict

    def draw(self, lead, generator, dtype=torch.float32, device="cpu"):
        """Leaves that require grad, and the integers beside them."""
        t = {name: torch.randn(fit(shape, lead), generator=generator) for name, shape in self.shapes.items()}
        for name, tensor in t.items():
            if tensor.dim() == 2 and ... not in self.shapes[name]:
                tensor /= tensor.shape[1]**0.5
        t = {name: tensor.to(device, dtype).requires_grad_() for name, tensor in t.items()}
        tokens = lead[-1] if lead else 1
        positions = torch.randint(0, 50, (tokens,), generator=generator) if lead else torch.tensor(3)
        targets = torch.randint(0, VOCABULARY, lead, generator=generator)
        if targets.numel() > 1:
            targets.view(-1)[1] = -100
        return t, {"positions": positions.to(device), "targets": targets.to(device)}


def fit(shape, lead):
    return (*lead, *shape[1:]) if shape and shape[0] is ... else shape


def rms_norm(x, weight=None):
    return F.rms_norm(x, x.shape[-1:], weight, EPS)


def rotate(z, positions, interleaved=False):
    """Angles are in f32, as transformers makes them, but for the exact side: their rounding is the same for all rows at a
    position, so sums over rows (the gradient by a bias) do not average it away."""
    exact = torch.float64 if z.dtype == torch.float64 else torch.float32
    frequencies = 10000.0 ** (-torch.arange(0, HEAD, 2, device=z.device, dtype=exact) / HEAD)
    angle = positions[..., None, None] * frequencies
    cos, sin = angle.cos().to(z.dtype), angle.sin().to(z.dtype)
    heads = z.unflatten(-1, (-1, HEAD))
    first, second = (heads[..., ::2], heads[..., 1::2]) if interleaved else heads.chunk(2, -1)
    turned = first * cos - second * sin, second * cos + first * sin
    return (torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)).flatten(-2)


def tables(positions, dtype):
    frequencies = 10000.0 ** (-torch.arange(0, HEAD, 2, device=positions.device).double() / HEAD)
    angle = positions[..., None] * frequencies
    return {"cos": angle.cos().to(dtype), "sin": angle.sin().to(dtype)}


def their_qkv(t, i, interleaved=False):
    h = rms_norm(t["x"], t["gamma"])
    q, k, v = (F.linear(h, t[name], t.get(f"{name}_bias")) for name in "qkv")
    return torch.cat([rotate(q, i["positions"], interleaved), rotate(k, i["positions"], interleaved), v], -1)


def our_chain(t, i):
    stream = CF.linear_residual_rmsnorm(t["x"], t["w"], t["residual"], t["gamma"], bias=t["bias"])
    return torch.cat([CF.rmsnorm_swiglu(stream, None, t["gate"], t["up"]), CF.rmsnorm_linear(stream, None, t["up"]),
                      stream.x], -1)


def their_chain(t, i):
    x = F.linear(t["x"], t["w"], t["bias"]) + t["residual"]
    h = rms_norm(x, t["gamma"])
    return torch.cat([F.silu(F.linear(h, t["gate"])) * F.linear(h, t["up"]), F.linear(h, t["up"]), x], -1)


def our_wide(t, i):
    stream = CF.linear_residual_rmsnorm(t["x"], t["w"], t["residual"], t["gamma"])
    return torch.cat([CF.rmsnorm_linear(stream, None, t["out"]), CF.rmsnorm_linear(stream.x, t["gamma"], t["out"]),
                      CF.rmsnorm(stream), CF.rmsnorm(stream.x, t["gamma"])], -1)


def their_wide(t, i):
    h = rms_norm(F.linear(t["x"], t["w"]) + t["residual"], t["gamma"])
    return torch.cat([F.linear(h, t["out"]).tile(2), h, h], -1)


def their_loss(reduction, norm=lambda t: t["x"]):
    def loss(t, i):
        logits = F.linear(norm(t), t["w"])
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return F.cross_entropy(logits.reshape(-1, VOCABULARY), i["targets"].reshape(-1), reduction=reduction)
    return loss


@coda.epilogue
def own(acc, extra: coda.Tile, bias: coda.Row, scale: coda.Col):
    z = acc * scale + bias
    return coda.tanh(z) + coda.sigmoid(z) * extra


X, W = {"x": (..., D)}, {"w": (N, D)}
GATED = {**X, "gate": (N, D), "up": (N, D)}
QKV = {**X, "gamma": (D,), "q": (2 * HEAD, D), "k": (HEAD, D), "v": (HEAD, D)}
BIASES = {"q_bias": (2 * HEAD,), "k_bias": (HEAD,), "v_bias": (HEAD,)}
CASES = {
    "linear": Case(lambda t, i: CF.linear(t["x"], t["w"]), lambda t, i: F.linear(t["x"], t["w"]), X | W),
    "linear_bias": Case(lambda t, i: CF.linear(t["x"], t["w"], t["b"]), lambda t, i: F.linear(t["x"], t["w"], t["b"]),
                        X | W | {"b": (N,)}),
    "linear_act": Case(lambda t, i: CF.linear_act(t["x"], t["w"], "gelu"), lambda t, i: F.gelu(F.linear(t["x"], t["w"])), X | W),
    "linear_act_bias": Case(lambda t, i: CF.linear_act(t["x"], t["w"], "silu", t["b"]),
                            lambda t, i: F.silu(F.linear(t["x"], t["w"], t["b"])), X | W | {"b": (N,)}),
    "linear_sigmoid": Case(lambda t, i: CF.linear_sigmoid(t["x"], t["w"], t["b"]),
                           lambda t, i: F.linear(t["x"], t["w"], t["b"]).sigmoid(), X | W | {"b": (N,)}),
    "linear_swiglu": Case(lambda t, i: CF.linear_swiglu(t["x"], t["gate"], t["up"]),
                          lambda t, i: F.silu(F.linear(t["x"], t["gate"])) * F.linear(t["x"], t["up"]), GATED),
    "linear_swiglu_stacked": Case(
        lambda t, i: CF.linear_swiglu(t["x"], t["both"]),
        lambda t, i: F.silu(F.linear(t["x"], t["both"][:N])) * F.linear(t["x"], t["both"][N:]), X | {"both": (2 * N, D)}),
    "linear_swiglu_biases": Case(
        lambda t, i: CF.linear_swiglu(t["x"], t["gate"], t["up"], gate_bias=t["b"], up_bias=t["c"]),
        lambda t, i: F.silu(F.linear(t["x"], t["gate"], t["b"])) * F.linear(t["x"], t["up"], t["c"]),
        GATED | {"b": (N,), "c": (N,)}),
    "linear_geglu": Case(lambda t, i: CF.linear_geglu(t["x"], t["gate"], t["up"], approximate="tanh"),
                         lambda t, i: F.gelu(F.linear(t["x"], t["gate"]), approximate="tanh") * F.linear(t["x"], t["up"]), GATED),
    "linear_residual_rmsnorm": Case(our_chain, their_chain, X | W | {
        "residual": (..., N), "gamma": (N,), "bias": (N,), "gate": (D, N), "up": (D, N)}),
    "wide_stream": Case(our_wide, their_wide, X | {
        "w": (WIDE, D), "residual": (..., WIDE), "gamma": (WIDE,), "out": (D, WIDE)}),
    "rmsnorm": Case(lambda t, i: CF.rmsnorm(t["x"], t["gamma"]), lambda t, i: rms_norm(t["x"], t["gamma"]), X | {"gamma": (D,)}),
    "rmsnorm_one_plus": Case(lambda t, i: CF.rmsnorm(t["x"], t["gamma"], one_plus=True),
                             lambda t, i: rms_norm(t["x"], 1 + t["gamma"]), X | {"gamma": (D,)}),
    "rmsnorm_alone": Case(lambda t, i: CF.rmsnorm(t["x"]), lambda t, i: rms_norm(t["x"]), X),
    "rmsnorm_linear": Case(lambda t, i: CF.rmsnorm_linear(t["x"], t["gamma"], t["w"], t["b"]),
                           lambda t, i: F.linear(rms_norm(t["x"], t["gamma"]), t["w"], t["b"]),
                           X | W | {"gamma": (D,), "b": (N,)}),
    "rmsnorm_linear_one_plus": Case(lambda t, i: CF.rmsnorm_linear(t["x"], t["gamma"], t["w"], one_plus=True),
                                    lambda t, i: F.linear(rms_norm(t["x"], 1 + t["gamma"]), t["w"]), X | W | {"gamma": (D,)}),
    "rmsnorm_swiglu": Case(
        lambda t, i: CF.rmsnorm_swiglu(t["x"], None, t["gate"], t["up"]),
        lambda t, i: F.silu(F.linear(rms_norm(t["x"]), t["gate"])) * F.linear(rms_norm(t["x"]), t["up"]), GATED),
    "rmsnorm_qkv_rope": Case(
        lambda t, i: torch.cat(CF.rmsnorm_qkv_rope(t["x"], t["gamma"], t["q"], t["k"], t["v"], biases=[
            t["q_bias"], t["k_bias"], t["v_bias"]], rope=CF.Rope(HEAD, i["positions"])), -1), their_qkv, QKV | BIASES),
    "rmsnorm_qkv_rope_interleaved": Case(
        lambda t, i: torch.cat(CF.rmsnorm_qkv_rope(t["x"], t["gamma"], t["q"], t["k"], t["v"], rope=CF.Rope(
            HEAD, i["positions"], interleaved=True)), -1), lambda t, i: their_qkv(t, i, True), QKV),
    "rmsnorm_qkv_rope_stacked": Case(
        lambda t, i: torch.cat(CF.rmsnorm_qkv_rope(t["x"], t["gamma"], t["qkv"], sizes=(2 * HEAD, HEAD, HEAD), rope=CF.Rope(
            HEAD, **tables(i["positions"], t["x"].dtype))), -1),
        lambda t, i: their_qkv(t | dict(zip("qkv", t["qkv"].split([2 * HEAD, HEAD, HEAD]))), i),
        X | {"gamma": (D,), "qkv": (4 * HEAD, D)}),
    "linear_qknorm_rope": Case(
        lambda t, i: CF.linear_qknorm_rope(t["x"], t["w"], t["gamma"], rope=CF.Rope(HEAD, i["positions"])),
        lambda t, i: rotate(rms_norm(F.linear(t["x"], t["w"]).unflatten(-1, (-1, HEAD)), t["gamma"]).flatten(-2),
                            i["positions"]), X | W | {"gamma": (HEAD,)}),
    "linear_cross_entropy": Case(lambda t, i: CF.linear_cross_entropy(t["x"], t["w"], i["targets"]), their_loss("mean"),
                                 X | {"w": (VOCABULARY, D)}),
    "linear_cross_entropy_sum": Case(
        lambda t, i: CF.linear_cross_entropy(t["x"], t["w"], i["targets"], reduction="sum"), their_loss("sum"),
        X | {"w": (VOCABULARY, D)}),
    "rmsnorm_cross_entropy": Case(
        lambda t, i: CF.linear_cross_entropy(CF.rmsnorm(t["x"], t["gamma"]), t["w"], i["targets"]),
        their_loss("mean", lambda t: rms_norm(t["x"], t["gamma"])), X | {"gamma": (D,), "w": (VOCABULARY, D)}),
}
#: Those that are 0/0 where no target counts, and those without a product, whose dtype autocast leaves.
MEANS = ("linear_cross_entropy", "rmsnorm_cross_entropy")
PASSES = ("rmsnorm", "rmsnorm_one_plus", "rmsnorm_alone")
OWN = Case(lambda t, i: coda.gemm(t["x"], t["w"].T, own, extra=t["extra"], bias=t["b"], scale=t["scale"]),
           lambda t, i: (lambda z: z.tanh() + z.sigmoid() * t["extra"])(
               F.linear(t["x"], t["w"]) * t["scale"][..., None] + t["b"]),
           X | W | {"extra": (..., N), "b": (N,), "scale": (...,)})
ALL = CASES | {"gemm_of_a_function": OWN}


def grad_like(case, t, i, generator):
    """A gradient by the output of a case, where that is."""
    out = case.theirs(t, i)
    return torch.randn(out.shape, generator=generator).to(out.device)


def results(function, t, i, grad):
    """The output and the gradients by all leaves, by name."""
    out = function(t, i)
    gradients = torch.autograd.grad(out, list(t.values()), grad.to(out.dtype).expand(out.shape))
    return {"out": out.detach()} | {f"d_{name}": gradient for name, gradient in zip(t, gradients)}


def doubled(t):
    return {name: tensor.detach().double().requires_grad_() for name, tensor in t.items()}


def rms(values):
    return values.double().square().mean().sqrt().item() if values.numel() else 0.0


def expect_no_worse(ours, theirs, exact, dtype):
    """The 2x rule: our error is at most twice theirs, plus one rounding of the data."""
    for name, truth in exact.items():
        assert ours[name].shape == truth.shape, name
        error, allowed = rms(ours[name].double() - truth), 2 * rms(theirs[name].double() - truth) + ROUNDING[dtype] * rms(truth)
        assert error <= allowed, f"{name}: error {error:.3e}, allowed {allowed:.3e}"


def compare(case, t, i, grad, dtype):
    """A case under the 2x rule."""
    expect_no_worse(results(case.ours, t, i, grad), results(case.theirs, t, i, grad),
                    results(case.theirs, doubled(t), i, grad.double()), dtype)
