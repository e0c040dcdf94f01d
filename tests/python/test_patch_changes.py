"""What changes behind a patch's back is seen by the next call: what was kept of the last answer does not hide it."""

import collections
import copy
import itertools

import pytest
import torch

import coda_cpp as coda
from coda_cpp.patching import families
from patched import draw_batch, gradients_equal, make_model, step


class Another(torch.nn.Linear):
    """Such as LoRA's."""


class Marked(torch.nn.Parameter):
    pass


def a_hook(module, *_):
    pass


def linear(model):
    return model.layers[1].mlp.up_proj


def norm(model):
    return model.layers[0].post_attention_layernorm


#: Functions of a base model, each of which puts something in the way.
CHANGES = {
    "hook": lambda model: linear(model).register_forward_hook(a_hook),
    "pre-hook": lambda model: model.layers[0].register_forward_pre_hook(a_hook),
    "backward hook": lambda model: norm(model).register_full_backward_hook(a_hook),
    "other dict of hooks": lambda model: setattr(linear(model), "_forward_hooks", collections.OrderedDict({0: a_hook})),
    "own forward": lambda model: setattr(norm(model), "forward", a_hook),
    "another module": lambda model: setattr(model.layers[1].mlp, "up_proj", Another(8, 8)),
    "another class": lambda model: setattr(linear(model), "__class__", Another),
    "another part": lambda model: linear(model).add_module("lora", torch.nn.Linear(2, 2)),
    "another layer": lambda model: model.layers.append(torch.nn.Identity()),
    "other layers": lambda model: setattr(model, "layers", torch.nn.ModuleList([*model.layers, torch.nn.Identity()])),
    "one dtype": lambda model: linear(model).bfloat16(),
    "all dtypes": lambda model: model.double(),
    "another parameter": lambda model: setattr(linear(model), "weight", Marked(linear(model).weight.detach())),
    "eps": lambda model: setattr(norm(model), "variance_epsilon", 0.5),
    "config's eps": lambda model: setattr(model.config, "rms_norm_eps", 0.5),
    "dropout": lambda model: setattr(model.config, "attention_dropout", 0.5),
    "a layer's dropout": lambda model: setattr(model.layers[1].self_attn, "attention_dropout", 0.5),
    "another activation": lambda model: setattr(model.layers[1].mlp, "act_fn", torch.nn.Tanh()),
    "embedding's dtype": lambda model: model.embed_tokens.bfloat16(),
    "activation": lambda model: setattr(model.config, "hidden_act", "tanh"),
    "rotation": lambda model: vars(model.rotary_emb).update(rope_type="dynamic", attention_scaling=2.0),
    "model's class": lambda model: setattr(model, "__class__", type("LlamaModel", (type(model),), {"__module__": "mine"})),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_obstacle_is_seen_by_the_next_call(name):
    model = make_model().model
    coda.patch(model)
    forward = model.__dict__["forward"]
    assert forward.obstacle({}) is None and forward.obstacle({}) is None
    CHANGES[name](model)
    path, reason = next(iter(families.obstacles(model).items()))
    assert forward.obstacle({}) == f"{path or 'the model'} {reason}"


def test_a_hook_on_all_modules_is_seen_by_the_next_call():
    model = make_model().model
    coda.patch(model)
    assert model.forward.obstacle({}) is None
    handle = torch.nn.modules.module.register_module_forward_hook(a_hook)
    try:
        assert "hook on all modules" in model.forward.obstacle({})
    finally:
        handle.remove()
    assert model.forward.obstacle({}) is None


def test_what_is_undone_is_seen_too():
    model, batch = make_model(), draw_batch()
    report = coda.patch(model)
    before = step(model, batch)
    handle = linear(model.model).register_forward_hook(a_hook)
    step(model, batch)
    assert sum(report.calls_left_stock.values()) == 1
    handle.remove()
    assert gradients_equal(step(model, batch), before) and sum(report.calls_left_stock.values()) == 1


def test_what_is_no_obstacle_changes_the_results():
    """Weights of another dtype, other parameters, one layer less."""
    model, batch = make_model(), draw_batch()
    report = coda.patch(model)
    step(model, batch)
    model.bfloat16()
    linear(model.model).weight = torch.nn.Parameter(torch.zeros_like(linear(model.model).weight))
    del model.model.layers[-1]
    model.config.num_hidden_layers -= 1
    stock = copy.deepcopy(model)
    coda.unpatch(stock)
    torch.testing.assert_close(step(model, batch)[0], step(stock, batch)[0], rtol=1e-2, atol=0)
    assert not report.calls_left_stock


def test_a_call_that_nothing_changed_asks_no_module_again(monkeypatch):
    model, batch = make_model(), draw_batch()
    coda.patch(model)
    step(model, batch)
    asked = itertools.count()
    monkeypatch.setattr(families, "obstacles", lambda model: next(asked))
    twin = copy.deepcopy(model)
    step(model, batch)
    step(twin, batch)
    assert next(asked) == 0
