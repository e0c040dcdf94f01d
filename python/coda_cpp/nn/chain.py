"""Decoder layers as a chain of segments: what patched models and the modules of coda_cpp.nn run. A layer is any module
with the attribute names of transformers' LlamaDecoderLayer; its parameters are read at each call."""

from __future__ import annotations

import dataclasses
import functools

import torch

from .._torch.options import require_eps
from ..errors import Error, NotImplementedError, ValueError
from . import segment as pieces
from .ops import segment
from .parts import at_path, name_of

#: What a segment calls its weights, and where a layer has them.
MLP_PATHS = {"o": "self_attn.o_proj.weight", "o_bias": "self_attn.o_proj.bias", "post_norm": "post_attention_layernorm.weight",
             "gate": "mlp.gate_proj.weight", "up": "mlp.up_proj.weight", "gate_bias": "mlp.gate_proj.bias",
             "up_bias": "mlp.up_proj.bias", "down": "mlp.down_proj.weight", "down_bias": "mlp.down_proj.bias"}
QKV_PATHS = {"next_norm": "input_layernorm.weight", "q": "self_attn.q_proj.weight", "k": "self_attn.k_proj.weight",
             "v": "self_attn.v_proj.weight", "q_bias": "self_attn.q_proj.bias", "k_bias": "self_attn.k_proj.bias",
             "v_bias": "self_attn.v_proj.bias", "q_norm": "self_attn.q_norm.weight", "k_norm": "self_attn.k_norm.weight"}


@dataclasses.dataclass(frozen=True)
class Options:
    """How a chain runs. call: what its errors begin with; gate: 'swiglu', ...; head: columns of a head; policy: 'fast'
    or 'lean' (docs/training.md); main_grad: gradients are added to parameters' `main_grad`, where they have one; angles, scale:
    as those of a Plan (segment.py)."""

    call: str
    gate: str
    head: int
    eps: float
    policy: str = "fast"
    main_grad: bool = False
    angles: str = "table"
    scale: float = 1.0

    def run(self, attention, x, weights, turns=()):
        """One segment; {name: result}. Raises TypeError and ValueError for weights that do not fit x or one another,
        NotImplementedError for main_grad under torch.compile."""
        if self.main_grad and torch.compiler.is_compiling():
            raise NotImplementedError(f"{self.call}: main_grad is set under torch.compile, expected eager mode: a graph has no "
                                      "parameters with attributes; patch(model) without it, or do not compile")
        require_eps(self.call, "eps is", self.eps)
        _require_alike(self.call, x, weights)
        plan = pieces.Plan(tuple(weights), self.eps, self.gate, self.head, self.policy, self.angles, self.scale)
        try:
            return segment(plan, attention, x, weights, turns, self.main_grad)
        except Error as error:
            raise type(error)(f"{self.call}: {error}") from error


def _require_alike(call, x, weights):
    for name, weight in weights.items():
        if weight.device != x.device:
            raise ValueError(f"{call}: argument 'x' is on {x.device} and weight '{name}' on {weight.device}, expected one "
                             "device: move one of them")
        if weight.dim() == 2 and weight.dtype != x.dtype:  # norms and biases are read in any dtype
            raise TypeError(f"{call}: argument 'x' is {name_of(x.dtype)} and weight '{name}' {name_of(weight.dtype)}, "
                            "expected one dtype: convert one of them")


def weights_of(module, paths):
    """{name: tensor} of those paths the module has."""
    found = {name: at_path(module, path) for name, path in paths.items()}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def table_rows(table, batch):
    """cos or sin (1 or B, L, head), whose halves are alike, as (T, head/2)."""
    half = table[..., :table.shape[-1] // 2].expand(batch, -1, -1)
    return half.reshape(-1, half.shape[-1])


def enter(layer, x, turns, options):
    """q, k, v of the first layer. x: (T, d)."""
    found = options.run(None, x, weights_of(layer, QKV_PATHS), turns)
    return found["q"], found["k"], found["v"]


def join(layer, following, attention, x, turns, options):
    """(x, q, k, v) behind a layer's MLP, q, k, v being those of the `following` layer; without one, (x,)."""
    weights = weights_of(layer, MLP_PATHS) | (weights_of(following, QKV_PATHS) if following is not None else {})
    found = options.run(attention, x, weights, turns if following is not None else ())
    return tuple(found.values())


def run_layers(layers, x, turns, attends, options, checkpoints=None, observe=None):
    """The residual stream (T, d) behind the layers, before the last norm.

    turns: what options.angles says. attends: for each layer a function of q (T, heads*head) and k, v (T, kv_heads*head) that
    gives the attention's result (T, heads*head). checkpoints: for each layer None, or a function (run, *tensors) that runs it
    so that its inner tensors are made again in the backward. observe(x): is shown the stream behind each layer.
    """
    def step(layer, following, attend, x, q, k, v):
        return join(layer, following, attend(q, k, v), x, turns, options)

    state = (x, *enter(layers[0], x, turns, options))
    checkpoints = checkpoints or [None] * len(layers)
    for layer, following, attend, checkpoint in zip(layers, [*layers[1:], None], attends, checkpoints):
        run = functools.partial(step, layer, following, attend)
        state = checkpoint(run, *state) if checkpoint is not None else run(*state)
        if observe is not None:
            observe(state[0])
    return state[0]
