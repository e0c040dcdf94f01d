"""Modules with the parameter names of transformers' own, forward and backward on segments (segment.py).

x and weights are f32 (on a CPU), bf16 or f16, of one dtype on one device; results have that dtype. Norms and biases may have
another. Errors name the module: TypeError and ValueError for arguments and weights that do not fit, NotImplementedError for
parts that would have to be called (parts.py), in transforms of torch.func and for gradients of gradients.
"""

from __future__ import annotations

import dataclasses
import functools

import torch

from .. import _core, functional
from .._torch.arguments import require_constant, require_tensor
from .._torch.frequencies import frequencies
from .._torch.options import require_base
from ..errors import NotImplementedError, TypeError, ValueError
from . import chain
from .parts import part_obstacle, require_parts

#: Names of activations, as configs of transformers have them, and the gates they make of gate and up.
GATES = {"silu": "swiglu", "gelu": "geglu", "gelu_pytorch_tanh": "geglu_tanh", "gelu_new": "geglu_tanh", "relu": "reglu"}
#: Where a decoder layer has its weights.
LAYER_PATHS = (*chain.MLP_PATHS.values(), *chain.QKV_PATHS.values())


def gate_of(call: str, activation: str) -> str:
    """The gate of an activation. Raises ValueError for a name that is neither an activation here nor a gate."""
    if activation in GATES:
        return GATES[activation]
    if activation in _core.gate_names():
        return activation
    raise ValueError(f"{call}: activation is '{activation}', expected one of {', '.join((*GATES, *_core.gate_names()))}")


def _rows(call, x, width):
    """x (..., d) as (T, d)."""
    require_tensor(call, "x", x)
    if x.dim() < 1 or x.shape[-1] != width:
        raise ValueError(f"{call}: argument 'x' has shape {list(x.shape)}, expected (..., {width})")
    return x.reshape(-1, width)


def _weights(call, module, paths):
    """{name: tensor} of what is at `paths`. Errors: those of require_parts."""
    require_parts(call, module, paths.values())
    return chain.weights_of(module, paths)


def _require_heads(call, heads, kv_heads, head):
    if heads < 1 or kv_heads < 1 or heads % kv_heads or head < 2 or head % 2:
        raise ValueError(f"{call}: got {heads} heads of {head} columns and {kv_heads} of k and v, expected heads that are a "
                         "multiple of kv_heads, of an even number of columns")


def _tables(call, x, positions, head):
    """cos and sin (1 or B, L, head), whose halves are alike, as two of (T, head/2). x: (B, L, d)."""
    if x.dim() != 3:
        raise ValueError(f"{call}: argument 'x' has shape {list(x.shape)}, expected (B, L, {x.shape[-1]})")
    if not isinstance(positions, (tuple, list)) or [isinstance(table, torch.Tensor) for table in positions] != [True, True]:
        raise TypeError(f"{call}: argument 'positions' is a {type(positions).__name__}, expected cos and sin, two tensors "
                        "(1 or B, L, head)")
    batch, length = x.shape[:2]
    for name, table in zip(("positions[0]", "positions[1]"), positions):
        require_constant(call, name, table)
        if table.dim() != 3 or table.shape[0] not in (1, batch) or tuple(table.shape[1:]) != (length, head):
            raise ValueError(f"{call}: argument '{name}' has shape {list(table.shape)}, expected "
                             f"[1 or {batch}, {length}, {head}] (B, L, head)")
    return tuple(chain.table_rows(table, batch) for table in positions)


class RMSNormLinear(torch.nn.Module):
    """linear(norm(x)), x (..., d) to (..., n). Parameters: norm.weight, linear.weight (n, d), linear.bias."""

    def __init__(self, d, n, eps=1e-6, bias=False, **factory):
        super().__init__()
        self.norm = torch.nn.RMSNorm(d, eps, **factory)
        self.linear = torch.nn.Linear(d, n, bias, **factory)

    def forward(self, x):
        rows = _rows("RMSNormLinear", x, self.linear.in_features)
        paths = {"next_norm": "norm.weight", "out": "linear.weight", "out_bias": "linear.bias"}
        options = chain.Options("RMSNormLinear", "swiglu", 0, self.norm.eps)
        out = options.run(None, rows, _weights("RMSNormLinear", self, paths))["out"]
        return out.view(*x.shape[:-1], out.shape[-1])


class GatedMLP(torch.nn.Module):
    """x + down_proj(act(gate_proj(norm(x))) * up_proj(norm(x))), x (..., d): an MLP between two residual streams.

    Parameters: norm.weight and those of transformers' LlamaMLP. activation: as hidden_act of a config; policy: 'fast'
    keeps the product of both for the backward, 'lean' makes it again.
    """

    def __init__(self, d, f, activation="silu", eps=1e-6, bias=False, policy="fast", **factory):
        super().__init__()
        self.gate, self.policy = gate_of("GatedMLP", activation), policy
        self.norm = torch.nn.RMSNorm(d, eps, **factory)
        self.gate_proj, self.up_proj = (torch.nn.Linear(d, f, bias, **factory) for _ in range(2))
        self.down_proj = torch.nn.Linear(f, d, bias, **factory)

    def forward(self, x):
        rows = _rows("GatedMLP", x, self.gate_proj.in_features)
        paths = {"post_norm": "norm.weight"} | {name: path.removeprefix("mlp.") for name, path in chain.MLP_PATHS.items()
                                                if path.startswith("mlp.")}
        options = chain.Options("GatedMLP", self.gate, 0, self.norm.eps, self.policy)
        found = options.run(None, rows, _weights("GatedMLP", self, paths))
        return found["x"].view(x.shape)


class QKVRope(torch.nn.Module):
    """(q, k, v) of norm(x), q and k rotated: x (B, L, d) to (B, L, heads*head) and twice (B, L, kv_heads*head).

    forward(x, positions): positions are cos and sin (1 or B, L, head), as transformers' rotary embedding makes them.
    Parameters: norm.weight, and q_proj, k_proj, v_proj, and with qk_norm q_norm, k_norm (over each head) of an attention of
    transformers.
    """

    def __init__(self, d, heads, kv_heads, head=None, eps=1e-6, bias=False, qk_norm=False, **factory):
        super().__init__()
        self.head = head or d // max(heads, 1)
        _require_heads("QKVRope", heads, kv_heads, self.head)
        self.norm = torch.nn.RMSNorm(d, eps, **factory)
        self.q_proj = torch.nn.Linear(d, heads * self.head, bias, **factory)
        self.k_proj, self.v_proj = (torch.nn.Linear(d, kv_heads * self.head, bias, **factory) for _ in range(2))
        if qk_norm:
            self.q_norm, self.k_norm = (torch.nn.RMSNorm(self.head, eps, **factory) for _ in range(2))

    def forward(self, x, positions):
        rows = _rows("QKVRope", x, self.q_proj.in_features)
        tables = _tables("QKVRope", x, positions, self.head)
        paths = {name: path.removeprefix("self_attn.") for name, path in chain.QKV_PATHS.items()} | {"next_norm": "norm.weight"}
        options = chain.Options("QKVRope", "swiglu", self.head, self.norm.eps)
        found = options.run(None, rows, _weights("QKVRope", self, paths), tables)
        return tuple(found[name].view(*x.shape[:-1], found[name].shape[1]) for name in "qkv")


class LMHeadLoss(torch.nn.Module):
    """Cross entropy of lm_head(norm(x)) with targets, a scalar in fp32: x (..., d), targets (...,) int64 or int32. The logits
    are never whole; nothing waits for a GPU.

    Parameters: norm.weight, lm_head.weight (vocabulary, d). reduction: 'mean' or 'sum'.
    """

    def __init__(self, d, vocabulary, eps=1e-6, reduction="mean", ignore_index=-100, **factory):
        super().__init__()
        self.reduction, self.ignore_index = reduction, ignore_index
        self.norm = torch.nn.RMSNorm(d, eps, **factory)
        self.lm_head = torch.nn.Linear(d, vocabulary, bias=False, **factory)

    def forward(self, x, targets):
        require_parts("LMHeadLoss", self, ("norm.weight", "lm_head.weight"))
        require_tensor("LMHeadLoss", "targets", targets)
        h = functional.rmsnorm(_rows("LMHeadLoss", x, self.lm_head.in_features), self.norm.weight, eps=self.norm.eps)
        return functional.linear_cross_entropy(h, self.lm_head.weight, targets.reshape(-1), ignore_index=self.ignore_index,
                                               reduction=self.reduction)


class LlamaLayer(torch.nn.Module):
    """A decoder layer under the names of transformers' LlamaDecoderLayer: x (B, L, d) to (B, L, d), causal.

    forward(x, positions): as QKVRope. Layers in a row are faster in a LlamaModel, which joins each with the next.
    """

    def __init__(self, d, f, heads, kv_heads, head=None, activation="silu", eps=1e-6, attention_bias=False, mlp_bias=False,
                 qk_norm=False, policy="fast", **factory):
        super().__init__()
        head = head or d // max(heads, 1)
        _require_heads("LlamaLayer", heads, kv_heads, head)
        self.options = chain.Options("LlamaLayer", gate_of("LlamaLayer", activation), head, eps, policy)
        linear = functools.partial(torch.nn.Linear, **factory)
        self.self_attn = torch.nn.Module()
        for name, rows in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            setattr(self.self_attn, f"{name}_proj", linear(d, rows * head, attention_bias))
        self.self_attn.o_proj = linear(heads * head, d, attention_bias)
        if qk_norm:
            self.self_attn.q_norm, self.self_attn.k_norm = (torch.nn.RMSNorm(head, eps, **factory) for _ in range(2))
        self.mlp = torch.nn.Module()
        self.mlp.gate_proj, self.mlp.up_proj = (linear(d, f, mlp_bias) for _ in range(2))
        self.mlp.down_proj = linear(f, d, mlp_bias)
        self.input_layernorm, self.post_attention_layernorm = (torch.nn.RMSNorm(d, eps, **factory) for _ in range(2))

    def forward(self, x, positions):
        rows = _rows("LlamaLayer", x, self.mlp.gate_proj.in_features)
        require_parts("LlamaLayer", self, LAYER_PATHS)
        return run_layers([self], x, rows, _tables("LlamaLayer", x, positions, self.options.head), self.options)


def run_layers(layers, x, rows, turns, options):
    """Layers of one shape in a row, each joined with the next: x (B, L, d), also as rows (T, d), to (B, L, d)."""

    def attend(q, k, v):
        width = q.shape[1]
        q, k, v = (tensor.view(*x.shape[:2], tensor.shape[1] // options.head, options.head).transpose(1, 2)
                   for tensor in (q, k, v))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return out.transpose(1, 2).reshape(len(rows), width).to(rows.dtype)  # another under autocast

    return chain.run_layers(layers, rows, turns, [attend] * len(layers), options).view(x.shape)


class LlamaModel(torch.nn.Module):
    """A causal language model under the state_dict names of transformers' LlamaForCausalLM, without transformers.

    forward(tokens (B, L)) gives logits (B, L, vocabulary); forward(tokens, targets (B, L)) the mean loss in fp32, whose
    logits are never whole: position t predicts targets[:, t], and -100 counts for nothing. Both int64 or int32. layer:
    options of LlamaLayer, and device and dtype.
    """

    def __init__(self, vocabulary, d, f, layers, heads, kv_heads, rope_theta=10000.0, eps=1e-6, tied=False, **layer):
        super().__init__()
        if layers < 1:
            raise ValueError(f"LlamaModel: layers is {layers}, expected 1 or more")
        require_base("LlamaModel", "rope_theta is", rope_theta)
        factory = {name: layer[name] for name in ("device", "dtype") if name in layer}
        self.model = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(vocabulary, d, **factory)
        self.model.layers = torch.nn.ModuleList(LlamaLayer(d, f, heads, kv_heads, eps=eps, **layer) for _ in range(layers))
        self.model.norm = torch.nn.RMSNorm(d, eps, **factory)
        self.lm_head = torch.nn.Linear(d, vocabulary, bias=False, **factory)
        if tied:
            self.lm_head.weight = self.model.embed_tokens.weight
        self.rope_theta = rope_theta

    def turns(self, tokens):
        """Positions (T,) of tokens (B, L), and frequencies (head/2,) in fp32."""
        positions = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.int32)
        head = self.model.layers[0].options.head
        return positions.expand(tokens.shape).reshape(-1), frequencies(float(self.rope_theta), head, tokens.device)

    def forward(self, tokens, targets=None):
        require_tensor("LlamaModel", "tokens", tokens)
        if tokens.dim() != 2:
            raise ValueError(f"LlamaModel: argument 'tokens' has shape {list(tokens.shape)}, expected (B, L)")
        require_parts("LlamaModel", self, ("model.norm.weight", "lm_head.weight"))
        for index, layer in enumerate(self.model.layers):
            if reason := part_obstacle(layer, "LlamaLayer"):
                raise NotImplementedError(f"LlamaModel: model.layers.{index} {reason}")
            require_parts("LlamaModel", layer, LAYER_PATHS, f"model.layers.{index}.")
        layers, x = list(self.model.layers), self.model.embed_tokens(tokens)
        options = dataclasses.replace(layers[0].options, call="LlamaModel", angles="frequency")
        x = run_layers(layers, x, x.flatten(0, 1), self.turns(tokens), options)
        norm, head = self.model.norm, self.lm_head.weight
        if targets is not None:
            return functional.linear_cross_entropy(functional.rmsnorm(x, norm.weight, eps=norm.eps), head, targets)
        options = chain.Options("LlamaModel", "swiglu", 0, norm.eps)
        found = options.run(None, x.flatten(0, 1), {"next_norm": norm.weight, "out": head})
        return found["out"].view(*tokens.shape, len(head))
