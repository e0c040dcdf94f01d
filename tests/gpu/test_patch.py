"""Patched transformers models on a GPU: the rule of tests/python/test_patch.py, and what only a GPU has."""

import copy
import gc

import pytest
import torch

pytest.importorskip("transformers")

import coda_cpp as coda
from gpu_common import capture
from patched import (KINDS, VOCABULARY, draw_batch, exact_step, expect_loss_no_worse, expect_no_worse, main_gradients,
                     make_model, step, train, with_main_gradients)

DEVICE = "cuda"


def make_gpu_model(kind="llama", dtype=torch.bfloat16, **options):
    """Sizes a kernel takes as they lie: rows begin on 16 bytes."""
    sizes = {"hidden_size": 128, "intermediate_size": 208}
    heads = {"head_dim": 64} if "head_dim" in KINDS[kind] else {}
    return make_model(kind, **(sizes | heads | options)).to(DEVICE, dtype)


@pytest.mark.parametrize("policy", ["fast", "lean"])
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_no_worse_than_stock(kind, policy):
    model, batch = make_gpu_model(kind), draw_batch(padded=policy == "lean", device=DEVICE)
    (_, exact), (_, stock) = exact_step(model, batch), step(model, batch)
    with coda.patch(model, policy=policy, strict=True) as report:
        loss, ours = step(model, batch)
    assert not report.skipped and not report.calls_left_stock
    assert all(gradient.device.type == DEVICE for gradient in ours.values())
    expect_no_worse(ours, stock, exact, torch.bfloat16)
    expect_loss_no_worse(loss, model, batch)


def test_half_precision():
    model, batch = make_gpu_model(dtype=torch.float16), draw_batch(device=DEVICE)
    (_, exact), (_, stock) = exact_step(model, batch), step(model, batch)
    report = coda.patch(model)
    assert len(report.replaced) == 2 and not report.skipped
    expect_no_worse(step(model, batch)[1], stock, exact, torch.float16)


def test_single_precision_is_left_alone():
    report = coda.patch(make_gpu_model(dtype=torch.float32))
    assert report.skipped == {
        "model": "weights are float32 on cuda, expected bfloat16 or float16: tensor cores multiply no others"}


@pytest.mark.parametrize("options", [{"use_reentrant": False}, {"use_reentrant": True}], ids=["", "reentrant"])
def test_checkpoints_change_nothing_but_attentions_order(options):
    model, batch = make_gpu_model("qwen3"), draw_batch(device=DEVICE)
    coda.patch(model)
    (loss, kept) = step(model, batch)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    model.enable_input_require_grads()
    again_loss, again = step(model, batch)
    torch.testing.assert_close(again_loss, loss, rtol=1e-4, atol=0)  # reentrant: a forward that keeps nothing runs first
    # torch's attention and embedding may add in any order: what differs is at their rounding.
    for name, gradient in again.items():
        torch.testing.assert_close(gradient, kept[name], rtol=2.0**-7, atol=2.0**-9 * kept[name].abs().max().item())


def test_one_graph_of_inductor():
    model, batch = make_gpu_model(use_cache=False), draw_batch(device=DEVICE)
    exact, stock = exact_step(model, batch)[1], step(model, batch)[1]
    coda.patch(model)
    expect_no_worse(step(torch.compile(model, fullgraph=True), batch)[1], stock, exact, torch.bfloat16)


@pytest.mark.parametrize("fuse_loss", [True, False])
def test_a_step_in_a_cuda_graph(fuse_loss):
    """Nothing of a step waits for the host; the fused loss is of several chunks."""
    model = make_gpu_model(use_cache=False)
    batch = {name: tensor.repeat(3, 1) for name, tensor in draw_batch(device=DEVICE).items()}
    coda.patch(model, fuse_loss=fuse_loss)
    graph, (loss, captured) = capture(lambda: step(model, batch), warm_ups=3)
    graph.replay()
    expected_loss, expected = step(model, batch)
    torch.testing.assert_close(loss, expected_loss)
    for name, gradient in captured.items():
        scale = expected[name].abs().max().item()
        torch.testing.assert_close(gradient, expected[name], rtol=2.0**-6, atol=2.0**-8 * scale)


@pytest.mark.parametrize("kind", ["llama", "tied"])
def test_main_gradients_are_no_worse_than_gradients(kind):
    model, batch = make_gpu_model(kind), draw_batch(device=DEVICE)
    _, exact = exact_step(model, batch)
    with coda.patch(model):
        _, kept = step(model, batch)
    with coda.patch(with_main_gradients(model), main_grad=True):
        _, rest = step(model, batch)
    assert not rest
    expect_no_worse(main_gradients(model), kept, exact, torch.bfloat16)


def test_main_gradients_in_a_cuda_graph():
    """Each replay adds, the hooks' part too."""
    model, batch = with_main_gradients(make_gpu_model("tied")), draw_batch(device=DEVICE)
    coda.patch(model, main_grad=True)
    graph, _ = capture(lambda: model(**batch, use_cache=False).loss.backward(), warm_ups=2)
    expected = {name: 2 * gradient for name, gradient in main_gradients(model).items()}
    for _ in range(2):
        graph.replay()
    for name, gradient in main_gradients(model).items():
        scale = expected[name].abs().max().item()
        torch.testing.assert_close(gradient, expected[name], rtol=2.0**-6, atol=2.0**-8 * scale)


def test_memory_is_torchs_and_is_given_back():
    model, batch = make_gpu_model(), draw_batch(device=DEVICE)
    coda.patch(model)
    held = []
    for _ in range(4):
        step(model, batch)
        gc.collect()
        held.append(torch.cuda.memory_allocated())
    assert held[1] == held[3]
    loss = model(**batch).loss
    assert torch.cuda.memory_allocated() > held[3], "what the backward needs is counted"
    loss.backward()


def test_16_steps_beside_stock():
    model = make_gpu_model("llama3", use_cache=False)
    batches, stock = [draw_batch(device=DEVICE) for _ in range(4)] * 4, copy.deepcopy(model)
    coda.patch(model, policy="lean")
    losses = [train(each, batches) for each in (model, stock)]
    assert losses[0][-1] < 0.9 * losses[0][0]
    torch.testing.assert_close(losses[0], losses[1], rtol=2e-2, atol=0)


def test_generation():
    model = make_gpu_model().eval()
    tokens = torch.randint(1, VOCABULARY, (2, 11), device=DEVICE)
    report = coda.patch(model)
    out = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=6, do_sample=False, pad_token_id=0)
    assert out.shape == (2, 17) and not report.calls_left_stock
