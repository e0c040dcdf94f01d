"""Patched models in training: beside stock, compiled, with checkpoints, frozen, with main gradients."""

import copy

import pytest
import torch

import coda_cpp as coda
from patched import draw_batch, gradients_equal, make_model, step, train
from support import DIFFERENTIATED_AGAIN


@pytest.mark.parametrize("is_checkpointed", [False, True], ids=["", "checkpointed"])
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_32_steps_beside_stock(is_compiled, is_checkpointed):
    model = make_model("llama3", rms_norm_eps=1e-5, use_cache=False)
    batches, stock = [draw_batch() for _ in range(4)] * 8, copy.deepcopy(model)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    report = coda.patch(model)
    if is_checkpointed:
        model.gradient_checkpointing_enable()
    # The forward of the patch is an object of Python: what is compiled is the call of the model.
    got = train(torch.compile(model, fullgraph=True, backend="aot_eager") if is_compiled else model, batches)
    expected = train(stock, batches)
    assert not report.calls_left_stock and got[-1] < 0.8 * got[0]
    torch.testing.assert_close(got, expected, rtol=2e-5, atol=0)
    ours = dict(model.named_parameters())
    for name, theirs in stock.named_parameters():
        assert (ours[name] - theirs).norm() <= 1e-2 * (theirs - start[name]).norm(), name


@pytest.mark.parametrize("options", [{"use_reentrant": False}, {"use_reentrant": True}], ids=["", "reentrant"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_checkpoints_change_no_bit(dtype, options):
    model, batch = make_model("qwen3").to(dtype), draw_batch(padded=True)
    coda.patch(model, policy="lean")
    kept = step(model, batch)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    model.enable_input_require_grads()
    assert gradients_equal(step(model, batch), kept)


def test_lean_makes_again_what_fast_keeps():
    model, batch = make_model("bias"), draw_batch()
    with coda.patch(model):
        fast = step(model, batch)
    with coda.patch(model, policy="lean"):
        lean = step(model, batch)
    assert gradients_equal(fast, lean)


def test_one_graph_of_inductor():
    model, batch = make_model("qwen2", num_hidden_layers=1, use_cache=False), draw_batch()
    coda.patch(model)
    loss, gradients = step(model, batch)
    compiled_loss, compiled = step(torch.compile(model, fullgraph=True), batch)
    torch.testing.assert_close(compiled_loss, loss)
    for name, gradient in compiled.items():
        torch.testing.assert_close(gradient, gradients[name], rtol=1e-4, atol=1e-5 * gradients[name].abs().max().item())


@pytest.mark.parametrize("is_strict", [False, True], ids=["", "strict"])
def test_an_exported_model_is_right(is_strict):
    """With our ops where export is strict; else parameters are tensors of a kind of their own, and layers are stock."""
    model = make_model(use_cache=False).eval()
    coda.patch(model)
    tokens = draw_batch()["input_ids"]
    exported = torch.export.export(model, (tokens,), strict=is_strict)
    assert (torch.ops.coda.segment.default in [node.target for node in exported.graph.nodes]) == is_strict
    torch.testing.assert_close(exported.module()(tokens).logits, model(tokens).logits)


def test_a_graph_knows_what_became_of_its_model():
    """Patched, hooked and undone behind a compiled model's back: each makes a new graph."""
    model, batch = make_model(use_cache=False), draw_batch()
    compiled = torch.compile(model, backend="aot_eager")
    is_fused = lambda: compiled(**batch).logits is None
    assert not is_fused()
    coda.patch(compiled)
    assert is_fused()
    handle = model.model.layers[1].mlp.register_forward_hook(lambda module, args, out: 2 * out)
    assert not is_fused()
    torch.testing.assert_close(compiled(**batch).loss, model(**batch).loss)
    handle.remove()
    assert is_fused()
    coda.unpatch(compiled)
    assert not is_fused()


def test_one_graph_for_all_lengths():
    model = make_model("qwen3", use_cache=False)
    coda.patch(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    torch._dynamo.utils.counters.clear()
    for length in (9, 14, 31):
        tokens = torch.randint(97, (2, length))
        batch = {"input_ids": tokens, "labels": tokens}
        assert gradients_equal(step(compiled, batch), step(model, batch))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_frozen_weights_have_no_gradient_and_change_no_other():
    model, batch = make_model("bias"), draw_batch()
    coda.patch(model)
    _, everything = step(model, batch)
    trained = ["model.layers.1.self_attn.v_proj.weight", "model.layers.1.mlp.down_proj.bias",
               "model.layers.0.post_attention_layernorm.weight", "model.norm.weight"]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    _, some = step(model, batch)
    assert set(some) == set(trained)
    for name, gradient in some.items():
        torch.testing.assert_close(gradient, everything[name])


def test_a_second_backward_gives_the_same():
    model, batch = make_model(), draw_batch()
    coda.patch(model)
    loss = model(**batch).loss
    first, second = (torch.autograd.grad(loss, list(model.parameters()), retain_graph=keeps) for keeps in (True, False))
    assert all(torch.equal(gradient, again) for gradient, again in zip(first, second))


@pytest.mark.parametrize("main_grad", [False, True])
def test_gradients_of_gradients_are_refused(main_grad):
    """Also where some are added to main gradients, which stay what they are outside autograd."""
    model, batch = make_model(), draw_batch()
    coda.patch(model, fuse_loss=False, main_grad=main_grad)
    added = model.model.layers[1].mlp.down_proj.weight
    added.main_grad = torch.zeros_like(added)
    weight = model.model.layers[0].mlp.gate_proj.weight
    gradient, = torch.autograd.grad(model.eval()(**batch).loss, weight, create_graph=True)
    assert not added.main_grad.requires_grad
    with pytest.raises(coda.errors.NotImplementedError) as raised:
        gradient.sum().backward()
    assert str(raised.value) == DIFFERENTIATED_AGAIN


def test_trainer(tmp_path):
    """The line of docs/patch.md: transformers' Trainer logs the losses it logs of the stock model."""
    pytest.importorskip("accelerate")
    import transformers

    stock = make_model()
    data = [{name: tensor[0] for name, tensor in draw_batch().items()} for _ in range(12)]

    def losses(model):
        options = transformers.TrainingArguments(str(tmp_path), per_device_train_batch_size=2, gradient_accumulation_steps=2,
                                                 max_steps=3, logging_steps=1, report_to=[], use_cpu=True, save_strategy="no",
                                                 disable_tqdm=True)
        trainer = transformers.Trainer(model=model, args=options, train_dataset=data)
        trainer.train()
        return torch.tensor([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])

    model = copy.deepcopy(stock)
    report = coda.patch(model, strict=True)
    got = losses(report.model)
    assert len(got) == 3 and not report.calls_left_stock
    torch.testing.assert_close(got, losses(stock), rtol=2e-5, atol=0)
