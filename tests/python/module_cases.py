"""Modules of coda_cpp.nn and what they compute in torch, for the suites of the CPU and of the GPU."""

import copy

import torch

from coda_cpp import nn
from patched import LENGTH, SEQUENCES, VOCABULARY, expect_no_worse, make_model

D, F, HEADS, KV_HEADS, HEAD = 64, 112, 4, 2, 16


def positions_of(model, dtype, device="cpu"):
    """Cosines and sines of a stock model's rotary embedding."""
    return tuple(table.to(device) for table in model.model.rotary_emb(torch.empty(0, dtype=dtype), torch.arange(LENGTH)[None]))


class Norm(torch.nn.Module):
    """RMSNorm as transformers rounds it."""

    def __init__(self, norm):
        super().__init__()
        self.weight, self.eps = norm.weight, norm.eps

    def forward(self, x):
        wide = x if x.dtype == torch.float64 else x.float()
        return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype)


def rotate(z, cos, sin):
    z = z.unflatten(-1, (-1, HEAD))
    a, b = z.chunk(2, -1)
    return (z * cos.unsqueeze(2) + torch.cat([-b, a], -1) * sin.unsqueeze(2)).flatten(-2)


def stock_of(module, positions):
    """What the module computes, in torch."""
    if isinstance(module, nn.RMSNormLinear):
        return lambda x: module.linear(Norm(module.norm)(x))
    if isinstance(module, nn.GatedMLP):
        def mlp(x):
            h = Norm(module.norm)(x)
            return x + module.down_proj(torch.nn.functional.silu(module.gate_proj(h)) * module.up_proj(h))
        return mlp
    if isinstance(module, nn.QKVRope):
        def qkv(x):
            h = Norm(module.norm)(x)
            return torch.cat([rotate(module.q_proj(h), *positions), rotate(module.k_proj(h), *positions), module.v_proj(h)], -1)
        return qkv
    raise AssertionError(module)


MODULES = {"norm_linear": lambda **f: nn.RMSNormLinear(D, 40, bias=True, **f), "gated_mlp": lambda **f: nn.GatedMLP(D, F, **f),
           "lean_mlp": lambda **f: nn.GatedMLP(D, F, bias=True, policy="lean", **f),
           "qkv_rope": lambda **f: nn.QKVRope(D, HEADS, KV_HEADS, bias=True, **f)}


def randomise(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter)) if parameter.dim() == 1 else parameter.mul_(2)
    return module


def values_and_gradients(run, module, x, weight):
    x = x.clone().requires_grad_()
    out = run(x)
    module.zero_grad()
    (out * weight).sum().backward()
    return {"out": out.detach(), "x": x.grad} | {name: p.grad.clone() for name, p in module.named_parameters()}


def check_module(name, dtype, device="cpu"):
    """A module's values and gradients are no worse than torch's own, against fp64."""
    positions = positions_of(make_model(), torch.float32, device)  # which seeds what follows, and prints the seed
    module = randomise(MODULES[name](dtype=dtype)).to(device)
    exact = copy.deepcopy(module).double()
    x = torch.randn(SEQUENCES, LENGTH, D, dtype=dtype, device=device)
    tables = {kind: tuple(table.to(kind) for table in positions) for kind in (dtype, torch.float64)}
    ours = (lambda x: torch.cat(module(x, positions), -1)) if name == "qkv_rope" else module
    weight = torch.randn_like(ours(x))
    found = values_and_gradients(ours, module, x, weight)
    stock = values_and_gradients(stock_of(module, tables[dtype]), module, x, weight)
    truth = values_and_gradients(stock_of(exact, tables[torch.float64]), exact, x.double(), weight.double())
    expect_no_worse(found, stock, truth, dtype)


def check_loss_in_half_precision(dtype, device="cpu"):
    """LMHeadLoss over two chunks of tokens, under a loss scale."""
    module = randomise(nn.LMHeadLoss(D, VOCABULARY, dtype=dtype)).to(device)
    exact = copy.deepcopy(module).double()
    x, targets = torch.randn(D + 5, D, dtype=dtype, device=device), torch.randint(VOCABULARY, (D + 5,), device=device)
    targets[::4] = -100

    def stock(module):
        def loss(x):
            logits = module.lm_head(Norm(module.norm)(x))
            return torch.nn.functional.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), targets)
        return loss

    scale = torch.tensor(2.0**14, device=device)
    found = values_and_gradients(lambda x: module(x, targets), module, x, scale)
    theirs, truth = values_and_gradients(stock(module), module, x, scale), values_and_gradients(stock(exact), exact, x.double(), scale)
    expect_no_worse(found, theirs, truth, dtype)
