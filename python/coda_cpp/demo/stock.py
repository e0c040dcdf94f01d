"""The stock half: transformers' own LlamaForCausalLM, run and trained as it comes, and run once more in fp64 as the
truth."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig
from transformers.generation.streamers import BaseStreamer

from .. import fp64
from .device import Device

# Called with a layer's number (1 is the first decoder layer) and what it put out, (T,d).
LayerHook = Callable[[int, torch.Tensor], None]

_HEAD_ROWS = 256  # tokens whose fp64 logits are held at once


@dataclass(frozen=True)
class Truth:
    """What exact arithmetic gives for the same weights: hidden states after each layer and the loss of each token."""

    hidden: list[torch.Tensor]
    token_loss: torch.Tensor


@torch.inference_mode()
def exact(model, tokens: torch.Tensor, targets: torch.Tensor, on_layer: LayerHook = lambda *layer: None) -> Truth:
    """Runs `model` in fp64 throughout. Layers are widened one at a time, so memory grows by one layer, not twofold."""
    hidden: list[torch.Tensor] = []

    def keep(index: int, state: torch.Tensor) -> None:
        hidden.append(state.clone())
        on_layer(index, state)

    with _fp64(model), _observed(model, keep):
        last = model.model(input_ids=tokens[None], use_cache=False).last_hidden_state[0]
    head = model.lm_head.weight.double()
    losses = [
        cross_entropy(rows @ head.T, wanted, reduction="none")
        for rows, wanted in zip(last.split(_HEAD_ROWS), targets.split(_HEAD_ROWS), strict=True)
    ]
    return Truth(hidden, torch.cat(losses))


@torch.inference_mode()
def token_loss(
    model, tokens: torch.Tensor, targets: torch.Tensor, on_layer: LayerHook | None = None
) -> torch.Tensor:
    """Cross entropy of each token, the logits in the model's dtype and the loss in fp32, as stock training does it."""
    with _observed(model, on_layer) if on_layer else contextlib.nullcontext():
        logits = model(input_ids=tokens[None], use_cache=False).logits[0]
    return cross_entropy(logits.float(), targets, reduction="none")


def gradients_of(model) -> Callable[[torch.Tensor, torch.Tensor], float]:
    """A function of tokens and targets (B,T) that leaves the gradients in the parameters and gives the mean loss."""

    def run(tokens: torch.Tensor, targets: torch.Tensor) -> float:
        model.zero_grad()
        logits = model(input_ids=tokens, use_cache=False).logits
        loss = cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        return loss.item()

    return run


@torch.inference_mode()
def generate(model, prompt: torch.Tensor, count: int, stop: set[int], on_token: Callable[[int], None]) -> list[int]:
    """Greedy continuation with the key-value cache, token by token."""
    streamer = _Streamer(on_token)
    settings = GenerationConfig(
        max_new_tokens=count, do_sample=False, num_beams=1, repetition_penalty=1.0, eos_token_id=sorted(stop) or None,
        pad_token_id=min(stop, default=0), use_cache=True,
    )  # fmt: skip
    ids = prompt[None]
    model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings, streamer=streamer)
    return streamer.made


@contextlib.contextmanager
def reordered(model, seed: int) -> Iterator[None]:
    """The same function with the neurons of each MLP in another order, so that its sums round differently."""
    generator = torch.Generator().manual_seed(seed)
    layers = [(layer.mlp, torch.randperm(model.config.intermediate_size, generator=generator))
              for layer in model.model.layers]  # fmt: skip
    for mlp, order in layers:
        _reorder_neurons(mlp, order)
    try:
        yield
    finally:
        for mlp, order in layers:
            _reorder_neurons(mlp, order.argsort())


def on(device: Device, model):
    """The model itself on the CPU, a copy on a GPU."""
    return copy.deepcopy(model).to(device.name) if device.is_gpu else model


def in_bf16(model):
    """A copy with bf16 weights and fp32 rotary frequencies, which is what `from_pretrained(dtype=bfloat16)` gives."""
    narrow = copy.deepcopy(model).to(torch.bfloat16)
    for name, buffer in model.model.rotary_emb.named_buffers():
        setattr(narrow.model.rotary_emb, name, buffer.clone())
    return narrow


class _Streamer(BaseStreamer):
    def __init__(self, on_token: Callable[[int], None]) -> None:
        self.made: list[int] = []
        self._on_token = on_token
        self._prompt_seen = False

    def put(self, value: torch.Tensor) -> None:
        if not self._prompt_seen:  # the first call brings the prompt
            self._prompt_seen = True
            return
        for token in value.reshape(-1).tolist():
            self.made.append(token)
            self._on_token(token)

    def end(self) -> None:
        pass


@torch.no_grad()
def _reorder_neurons(mlp: nn.Module, order: torch.Tensor) -> None:
    for projection in (mlp.gate_proj, mlp.up_proj):
        projection.weight.copy_(projection.weight[order])
        if projection.bias is not None:
            projection.bias.copy_(projection.bias[order])
    mlp.down_proj.weight.copy_(mlp.down_proj.weight[:, order])


@contextlib.contextmanager
def _observed(model, on_layer: LayerHook) -> Iterator[None]:
    """Calls `on_layer` after each decoder layer. `output_hidden_states` would not do: its last entry is normed."""

    def watch(index: int) -> Callable:
        return lambda module, inputs, output: on_layer(index, _first(output)[0])

    with contextlib.ExitStack() as stack:
        for index, layer in enumerate(model.model.layers, start=1):
            stack.callback(layer.register_forward_hook(watch(index)).remove)
        yield


@contextlib.contextmanager
def _fp64(model) -> Iterator[None]:
    """Makes a forward pass of `model.model` exact to fp64."""
    narrow = model.dtype
    parts = model.model
    with contextlib.ExitStack() as stack:
        widen = parts.embed_tokens.register_forward_hook(lambda module, inputs, output: output.double())
        stack.callback(widen.remove)
        for layer in parts.layers:
            before = layer.register_forward_pre_hook(lambda module, inputs: module.double() and None)
            after = layer.register_forward_hook(lambda module, inputs, output: module.to(narrow) and None)
            stack.callback(before.remove)
            stack.callback(after.remove)
        stack.enter_context(fp64.replaced(parts.rotary_emb, "forward", _exact_rotary(parts.rotary_emb).forward))
        for module in parts.children():  # not in parts' own forward, where the layers' hooks narrow again
            stack.enter_context(fp64.throughout(module))
        yield


def _exact_rotary(rotary: nn.Module) -> nn.Module:
    """One whose frequencies are not rounded either."""
    with fp64.Fp64():
        return type(rotary)(rotary.config).to(rotary.inv_freq.device)


def _first(output):
    return output[0] if isinstance(output, tuple) else output
