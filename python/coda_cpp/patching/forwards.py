"""The forwards a patch puts on instances. Each runs the stock forward of the class on a stand-in for the model: masks,
positions, caches and results are transformers' own code, and only the layers and the loss are not."""

from __future__ import annotations

import functools
import inspect
import sys

import torch

from .. import functional
from ..nn import chain
from ..nn.parts import hook_obstacle
from . import families
from .clearance import Clearance


class StandIn:
    """An object that is the model in all but the attributes it has itself."""

    def __init__(self, of, /, **others):
        self._of = of
        for name, value in others.items():  # one by one: older torch.compile does not follow a __dict__
            setattr(self, name, value)

    def __getattr__(self, name):
        return getattr(self._of, name)


class Forward:
    """A forward put on an instance. It holds the model, so that copies of a model have forwards of their own."""

    def __init__(self, model, report):
        self.model, self.report = model, report
        self.__signature__ = inspect.signature(model.forward)

    @property
    def __code__(self):
        """Of the stock forward: torch.export's place for the line a call begins at."""
        return type(self.model).forward.__code__

    def stock(self, args, options):
        return type(self.model).forward(self.model, *args, **options)

    def watch_main_gradients(self):
        """Sees to it that main gradients get what no product adds to them."""
        if self.report.main_gradients is not None and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            self.report.main_gradients.watch(self.report.model)

    def count(self, reason):
        if not torch.compiler.is_compiling():
            self.report.calls_left_stock[reason] += 1


class BaseForward(Forward):
    """The forward of a base model: its layers as a chain of segments. observe: is shown the stream behind each layer."""

    observe = None
    clearance = None

    def __init__(self, model, report, policy):
        super().__init__(model, report)
        self.policy = policy

    def __call__(self, *args, **options):
        self.watch_main_gradients()
        reason = self.obstacle(options)
        if reason is not None:
            self.count(reason)
            return self.stock(args, options)
        return self.run(self.model.norm, args, options)

    def obstacle(self, options):
        """Why a call must go to the stock forward, or None."""
        for flag in ("output_attentions", "output_hidden_states"):
            if options.get(flag, getattr(self.model.config, flag, False)):
                return f"{flag} is asked for"
        cache = options.get("cache", options.get("past_key_values"))
        if cache is not None and type(cache).__name__ not in families.CACHES:
            return f"the cache is a {type(cache).__name__}, expected one of {', '.join(families.CACHES)}"
        if reason := self.model_obstacle():
            return reason
        if torch.is_autocast_enabled(self.model.layers[0].input_layernorm.weight.device.type):
            return "autocast is on: load the model in the dtype it computes in"
        return None

    def model_obstacle(self):
        """Why the model cannot be patched any more, or None."""
        is_traced = torch.compiler.is_compiling()  # the graph is to have guards of all that is read
        if not is_traced and self.clearance is not None and self.clearance.holds(self.model):
            return None
        found = families.obstacles(self.model)
        if not is_traced:
            self.clearance = None if found else Clearance(self.model)
        return next((f"{name or 'the model'} {reason}" for name, reason in found.items()), None)

    def run(self, norm, args, options):
        """The stock forward with our layers, and with that norm behind them."""
        calls, how = [], self.chain_options()
        layers = [StandInLayer(layer, calls) for layer in self.model.layers[:self.model.config.num_hidden_layers]]
        layers[-1].run = functools.partial(self.run_layers, how, calls)
        stand_in = StandIn(self.model, layers=layers, norm=norm, rotary_emb=functools.partial(self.turns, how.angles))
        return type(self.model).forward(stand_in, *args, **options)

    def chain_options(self):
        """How the layers run; looked at in each call, as modules and the config may be others since the patch."""
        config, (angles, scale) = self.model.config, families.turns_of(self.model)
        return chain.Options(type(self.model).__name__, families.GATES[config.hidden_act],
                             self.model.layers[0].self_attn.head_dim, config.rms_norm_eps, self.policy,
                             self.report.main_gradients is not None, angles, scale)

    def turns(self, angles, hidden, position_ids):
        """Positions and frequencies in fp32; where those change from call to call cos and sin instead, as the stock model
        makes them, but in fp32."""
        rotary = self.model.rotary_emb
        if angles == "frequency":
            return position_ids, rotary.inv_freq.to(device=hidden.device, dtype=torch.float32)
        return rotary(hidden[:0].detach().float(), position_ids=position_ids)

    @staticmethod
    def rows_of(turns, angles, batch):
        """The turns of tokens (1 or B, L) for the T rows of all."""
        if angles == "table":
            return [chain.table_rows(table, batch) for table in turns]
        positions, frequencies = turns
        return [positions.expand(batch, -1).reshape(-1), frequencies]

    def run_layers(self, how, calls, hidden):
        """how: chain.Options; calls: the keyword arguments the stock forward gave each layer; hidden: (B, L, d)."""
        batch, length, width = hidden.shape
        layers = list(self.model.layers[:len(calls)])
        checkpoints = [layer._gradient_checkpointing_func if _is_checkpointed(layer) else None for layer in layers]
        turns = self.rows_of(calls[0]["position_embeddings"], how.angles, batch)
        attends = [functools.partial(_attend, layer.self_attn, batch, call, not _is_checkpointed(layer))
                   for layer, call in zip(layers, calls)]
        x = chain.run_layers(layers, hidden.reshape(batch * length, width), turns, attends, how, checkpoints,
                             self.observe)
        return x.view(batch, length, width)


class StandInLayer:
    """Takes note of what the stock forward gives a layer; the last one runs them all."""

    run = None

    def __init__(self, layer, calls):
        self.layer, self.calls = layer, calls

    def __getattr__(self, name):
        return getattr(self.layer, name)

    def __call__(self, hidden, **options):
        self.calls.append(options)
        return hidden if self.run is None else self.run(hidden)


def _is_checkpointed(layer):
    return layer.gradient_checkpointing and layer.training and torch.is_grad_enabled()


def _attend(attention, batch, call, has_cache, q, k, v):
    """The stock attention function on (T, heads*head), with the mask the stock forward made."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    q, k, v = (tensor.view(batch, -1, tensor.shape[1] // attention.head_dim, attention.head_dim).transpose(1, 2)
               for tensor in (q, k, v))
    names = ("attention_mask", "position_embeddings", "cache", "past_key_values")
    options = {name: value for name, value in call.items() if name not in names}
    cache = call.get("cache", call.get("past_key_values"))
    if cache is not None and has_cache:
        k, v = cache.update(k, v, attention.layer_idx)
    eager = sys.modules[type(attention).__module__].eager_attention_forward
    function = ALL_ATTENTION_FUNCTIONS.get_interface(attention.config._attn_implementation, eager)
    # Of the families, those whose attention has no window of its own leave it to the config.
    window = getattr(attention, "sliding_window", getattr(attention.config, "sliding_window", None))
    out, _ = function(attention, q, k, v, call.get("attention_mask"), dropout=0.0, scaling=attention.scaling,
                      sliding_window=window, **options)
    return out.reshape(out.shape[0] * out.shape[1], -1)


class CausalForward(Forward):
    """The forward of a causal language model: in training, its loss without logits."""

    def __call__(self, *args, **options):
        reason = self.obstacle(args, options)
        if reason is None:
            return self.fused(args, options)
        if reason:
            self.count(reason)
        return self.stock(args, options)

    def obstacle(self, args, options):
        """Why the loss is left to the stock forward, or None; '' where there is nothing to fuse, or the base model says
        why it does not run."""
        bound = inspect.signature(type(self.model).forward).bind_partial(self.model, *args, **options).arguments
        base = self.model.model.__dict__.get("forward")
        wants_loss = bound.get("labels") is not None and self.model.training
        if not wants_loss or not isinstance(base, BaseForward) or base.obstacle(options) is not None:
            return ""
        kept = bound.get("logits_to_keep", 0)
        if isinstance(kept, torch.Tensor) or kept != 0:
            reason = "logits_to_keep is given with labels, and counts logits"
        elif hooked := hook_obstacle(self.model.model):
            reason = f"model {hooked}"
        else:
            reason = families.loss_obstacle(self.model)
        return f"loss: {reason}" if reason else None

    def fused(self, args, options):
        """The stock forward whose logits are the stream, which only our loss reads."""
        self.watch_main_gradients()
        base = self.model.model.__dict__["forward"]
        stand_in = StandIn(self.model, model=lambda *a, **o: base.run(_same, a, o), lm_head=_same, loss_function=self.loss)
        as_dict = options.get("return_dict", getattr(self.model.config, "return_dict", True))
        outputs = type(self.model).forward(stand_in, *args, **(options | {"return_dict": True}))
        outputs = type(outputs)(**{name: value for name, value in outputs.items() if name != "logits"})
        return outputs if as_dict is not False else outputs.to_tuple()

    def loss(self, logits, labels, vocab_size, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **_):
        """transformers' ForCausalLMLoss of the stream (B, L, d) in the place of logits."""
        if shift_labels is None:
            shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
        norm, head = self.model.model.norm, self.model.lm_head.weight
        adds = self.report.main_gradients is not None and getattr(head, "main_grad", None) is not None
        h = functional.rmsnorm(logits.reshape(-1, logits.shape[-1]), norm.weight, eps=norm.variance_epsilon)
        loss = functional.linear_cross_entropy(
            h, head, shift_labels.reshape(-1).to(h.device), ignore_index=ignore_index,
            reduction="mean" if num_items_in_batch is None else "sum", main_grad=adds)
        if num_items_in_batch is None:
            return loss
        if torch.is_tensor(num_items_in_batch):
            num_items_in_batch = num_items_in_batch.to(loss.device)
        return loss / num_items_in_batch


def _same(tensor):
    return tensor
