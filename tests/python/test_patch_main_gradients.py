"""patch(main_grad=True): every parameter's gradient ends in its `main_grad`, added by the product that makes it or behind
PyTorch's accumulation."""

import copy

import pytest
import torch

import coda_cpp as coda
from patched import (draw_batch, exact_step, expect_no_worse, gradients_equal, main_gradients, make_model, step,
                     with_main_gradients)


def summed(model, batches):
    """The sums of {name: grad} over batches, as autograd accumulates them."""
    model.zero_grad()
    for batch in batches:
        model(**batch).loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def main_step(model, batches, **options):
    """The main gradients of a patched copy, fresh, after those batches."""
    model = with_main_gradients(copy.deepcopy(model))
    coda.patch(model, main_grad=True, **options)
    for batch in batches:
        model(**batch).loss.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    return main_gradients(model)


KINDS = ("llama", "tied", "bias", "qwen3")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["f32", "bf16", "f16"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_steps_are_the_sum_of_gradients(kind, dtype):
    """In f32 the same bits, but for the head, whose loss is scaled and added in one rounding, and whose terms are added in
    another order where it is tied. In 16 bits no further from fp64 than `grad` is."""
    stock, batches = make_model(kind).to(dtype), [draw_batch(), draw_batch(padded=True)]
    exact = [exact_step(stock, batch)[1] for batch in batches]
    model = copy.deepcopy(stock)
    with coda.patch(model):
        expected = summed(model, batches)
    got = main_step(stock, batches)
    expect_no_worse(got, expected, {name: first + exact[1][name] for name, first in exact[0].items()}, dtype)
    if dtype == torch.float32:
        head = "model.embed_tokens.weight" if stock.config.tie_word_embeddings else "lm_head.weight"
        assert {name for name in got if not torch.equal(got[name], expected[name])} <= {head}


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_has_the_bits_of_the_gradients(kind):
    """A tied weight's two are added once each."""
    model, batch = make_model(kind), draw_batch()
    got = main_step(model, [batch])
    with coda.patch(model):
        _, expected = step(model, batch)
    assert gradients_equal((batch["labels"], got), (batch["labels"], expected))


@pytest.mark.parametrize("options", [{"use_reentrant": False}, {"use_reentrant": True}], ids=["", "reentrant"])
def test_checkpoints_change_no_bit_and_no_product(options):
    model, batch = make_model("tied").bfloat16(), draw_batch()
    kept = main_step(model, [batch])
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    model.enable_input_require_grads()
    again = main_step(model, [batch])
    assert all(torch.equal(again[name], gradient) for name, gradient in kept.items())
    model = with_main_gradients(model)
    coda.patch(model, main_grad=True)
    accumulated = []
    for name, parameter in model.named_parameters():
        parameter.register_hook(lambda gradient, name=name: None if gradient is None else accumulated.append(name))
    model(**batch).loss.backward()
    assert set(accumulated) == {"model.embed_tokens.weight", "model.norm.weight"}


@pytest.mark.parametrize("options", [{"fuse_loss": False}, {}], ids=["stock loss", "stock call"])
def test_what_stays_stock_is_added_too(options):
    """The stock head and loss; and a call whose layers are stock as well."""
    model, batch = make_model("tied"), draw_batch()
    flags = {} if options else {"output_hidden_states": True}
    model = with_main_gradients(model)
    _, expected = step(copy.deepcopy(model), batch)
    coda.patch(model, main_grad=True, **options)
    model(**batch, **flags).loss.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    for name, gradient in main_gradients(model).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-5 * expected[name].abs().max().item())


def test_parameters_without_one_keep_grad():
    model, batch = make_model(), draw_batch()
    with coda.patch(model):
        _, expected = step(model, batch)
    with_main_gradients(model.model.layers[0])
    coda.patch(model, main_grad=True)
    _, got = step(model, batch)
    added = {name for name, _ in model.named_parameters() if name.startswith("model.layers.0.")}
    assert gradients_equal((batch["labels"], got), (batch["labels"], {
        name: gradient for name, gradient in expected.items() if name not in added}))
    assert all(torch.equal(parameter.main_grad, expected[f"model.layers.0.{name}"])
               for name, parameter in model.model.layers[0].named_parameters())


def test_frozen_trained_and_replaced_since_the_patch():
    """The embedding is frozen in the first step, the last norm another in the second."""
    model, batch = with_main_gradients(make_model()), draw_batch()
    embedding, norm = model.model.embed_tokens.weight.requires_grad_(False), model.model.norm
    coda.patch(model, main_grad=True)
    model(**batch).loss.backward()
    assert not embedding.main_grad.any() and embedding.grad is None
    embedding.requires_grad_()
    norm.weight = torch.nn.Parameter(norm.weight.detach().clone())
    norm.weight.main_grad = torch.zeros_like(norm.weight)
    model(**batch).loss.backward()
    assert embedding.main_grad.any() and norm.weight.main_grad.any()
    assert embedding.grad is None and norm.weight.grad is None


def test_unpatch_takes_the_hooks_off():
    model, batch = with_main_gradients(make_model()), draw_batch()
    with coda.patch(model, main_grad=True):
        model(**batch).loss.backward()
    before = {name: gradient.clone() for name, gradient in main_gradients(model).items()}
    assert len(step(model, batch)[1]) == len(before)
    assert all(torch.equal(gradient, before[name]) for name, gradient in main_gradients(model).items())


def test_a_copy_of_a_patched_model_has_its_own():
    model, batch = with_main_gradients(make_model("tied")), draw_batch()
    coda.patch(model, main_grad=True)
    model(**batch).loss.backward()
    twin = with_main_gradients(copy.deepcopy(model))
    twin(**batch).loss.backward()
    coda.unpatch(model)
    assert all(torch.equal(gradient, main_gradients(model)[name]) for name, gradient in main_gradients(twin).items())
    twin(**batch).loss.backward()
    assert all(parameter.grad is None for parameter in twin.parameters())


def test_a_main_gradient_of_another_shape_is_refused():
    model = make_model()
    model.model.norm.weight.main_grad = torch.zeros(3, model.config.hidden_size)
    coda.patch(model, main_grad=True)
    with pytest.raises(ValueError) as raised:
        step(model, draw_batch())
    assert str(raised.value) == (f"patch: main_grad of model.norm.weight has shape [3, {model.config.hidden_size}], expected "
                                 f"[{model.config.hidden_size}], that of the parameter")


def test_main_gradients_are_refused_in_a_graph():
    model, batch = make_model(use_cache=False), draw_batch()
    coda.patch(model, main_grad=True)
    with pytest.raises(Exception, match="LlamaModel: main_grad is set under torch.compile, expected eager mode"):
        step(torch.compile(model, fullgraph=True, backend="aot_eager"), batch)
