"""Gradients of small random LLaMA-family models against transformers' in double, and training beside stock."""

import copy

import numpy as np
import pytest
import torch

import coda_cpp as coda
from coda_cpp import fp64
from stock_llama import random_llama
from support import ROUNDING, to_double

VOCABULARY, SEQUENCES, LENGTH = 97, 3, 23

VARIANTS = {
    "llama": {},
    "tied": {"tie_word_embeddings": True},
    "bias": {"attention_bias": True, "mlp_bias": True},
    "gelu": {"hidden_act": "gelu_pytorch_tanh", "head_dim": 32},
    "qwen2": {"family": "Qwen2"},
    "qwen3": {"family": "Qwen3", "head_dim": 24, "tie_word_embeddings": True},
}


def make_model(**options):
    return random_llama(vocab_size=VOCABULARY, **options)


def to_coda(model, **options):
    return coda.LlamaModel(model.config.to_json_string(use_diff=False), model.state_dict(), **options)


def draw_batch(sequences=SEQUENCES, length=LENGTH):
    tokens, targets = (torch.randint(VOCABULARY, (sequences, length)) for _ in range(2))
    targets[:, ::5] = -100
    return tokens, targets


def stock_loss(model, tokens, targets):
    logits = model(tokens).logits
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def stock_gradients(model, tokens, targets, factor=1):
    model.zero_grad()
    loss = stock_loss(model, tokens, targets)
    (factor * loss).backward()
    return loss.item(), {name: to_double(p.grad) for name, p in model.named_parameters()}


def exact_gradients(model, *args, **options):
    with fp64.copy_of(model) as exact:
        return stock_gradients(exact, *args, **options)


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


@pytest.fixture(params=VARIANTS)
def model(request):
    return make_model(**VARIANTS[request.param])


@pytest.mark.parametrize("policy", ["fast", "lean"])
def test_single_precision_gradients(model, policy):
    tokens, targets = draw_batch()
    ours = to_coda(model)
    loss, expected = exact_gradients(model, tokens, targets)
    got_loss, got = ours.loss_and_gradients(tokens, targets, policy=policy, chunk_tokens=64)
    assert got_loss.value == pytest.approx(loss, rel=1e-5)
    assert got_loss.counted == (targets != -100).sum()
    assert got.keys() == expected.keys() == set(ours.parameter_names())
    for name, gradient in got.items():
        assert isinstance(gradient, torch.Tensor) and gradient.dtype == torch.float32
        # Keys of all tokens moved alike change no softmax but for their rotation: terms of the size of k's cancel.
        scale = np.abs(expected[name.replace("k_proj.bias", "k_proj.weight")]).max()
        assert np.abs(to_double(gradient) - expected[name]).max() <= 3e-5 * scale, name


@pytest.mark.parametrize("main, stream_gradient", [(None, "stream"), ("f32", "stream"), ("f32", "f32")])
def test_half_precision_gradients_are_no_worse_than_stock(model, main, stream_gradient):
    tokens, targets = draw_batch()
    model = model.bfloat16()
    exact_loss, exact = exact_gradients(model, tokens, targets)
    loss, stock = stock_gradients(model, tokens, targets)
    got_loss, got = to_coda(model).loss_and_gradients(tokens, targets, dtype=main, stream_gradient=stream_gradient,
                                                      chunk_tokens=64)
    assert abs(got_loss.value - exact_loss) <= 2 * abs(loss - exact_loss) + ROUNDING["bf16"] * exact_loss
    for name, gradient in got.items():
        assert gradient.dtype == (torch.float32 if main else torch.bfloat16)
        ours, theirs = rms(to_double(gradient) - exact[name]), rms(stock[name] - exact[name])
        assert ours <= 2 * theirs + ROUNDING["bf16"] * rms(exact[name]), name


def test_stream_gradient_changes_nothing_in_single_precision():
    ours, (tokens, targets) = to_coda(make_model()), draw_batch()
    _, expected = ours.loss_and_gradients(tokens, targets)
    _, got = ours.loss_and_gradients(tokens, targets, stream_gradient="f32")
    assert all(torch.equal(got[name], gradient) for name, gradient in expected.items())


def test_gradients_are_added_and_the_rest_is_frozen():
    model = make_model()
    tokens, targets = draw_batch()
    ours = to_coda(model)
    _, everything = ours.loss_and_gradients(tokens, targets)
    names = ["model.layers.1.self_attn.v_proj.weight", "model.layers.0.post_attention_layernorm.weight"]
    _, some = ours.loss_and_gradients(tokens, targets, trainable=names)
    assert list(some) == names
    main = {name: torch.ones_like(some[name]) for name in names}
    _, again = ours.loss_and_gradients(tokens, targets, main, factor=0.5)
    for name in names:
        assert torch.equal(some[name], everything[name])
        assert again[name] is main[name]
        torch.testing.assert_close(main[name], 1 + some[name] / 2)


def test_sequences_do_not_see_each_other():
    model = make_model()
    tokens, targets = draw_batch()
    ours = to_coda(model)
    _, together = ours.loss_and_gradients(tokens, targets, reduction="sum")
    apart = None
    for row in range(SEQUENCES):
        _, apart = ours.loss_and_gradients(tokens[row].numpy(), targets[row].tolist(), apart, reduction="sum")
    for name, gradient in together.items():
        assert isinstance(apart[name], np.ndarray)
        np.testing.assert_allclose(apart[name], gradient, rtol=1e-4, atol=1e-5 * gradient.abs().max().item())


def train(model, batches, step):
    """32 steps of AdamW; the losses and the parameters after them."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    losses = []
    for tokens, targets in batches:
        optimizer.zero_grad()
        losses.append(step(tokens, targets))
        optimizer.step()
    return np.array(losses), {name: p.detach().double() for name, p in model.named_parameters()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_keeps_step_with_stock(dtype):
    model = make_model(rms_norm_eps=1e-5, rope_theta=500000.0).to(dtype)
    start = {name: p.detach().double() for name, p in model.named_parameters()}
    # In bf16 stock itself leaves fp32's way: the fewer the tokens, the further.
    batches = [draw_batch(8, 64) for _ in range(4)] * 8
    stock, mine = copy.deepcopy(model), copy.deepcopy(model)

    def stock_step(tokens, targets):
        loss = stock_loss(stock, tokens, targets)
        loss.backward()
        return loss.item()

    ours, parameters = to_coda(mine, share=True), dict(mine.named_parameters())

    def our_step(tokens, targets):
        loss, gradients = ours.loss_and_gradients(tokens, targets)
        for name, gradient in gradients.items():
            parameters[name].grad = gradient
        return loss.value

    expected, theirs = train(stock, batches, stock_step)
    got, weights = train(mine, batches, our_step)
    assert got[-1] < 0.8 * got[0]
    np.testing.assert_allclose(got, expected, rtol=2e-5 if dtype == torch.float32 else 1e-2)
    if dtype == torch.float32:
        for name, weight in weights.items():
            assert (weight - theirs[name]).norm() <= 1e-2 * (theirs[name] - start[name]).norm(), name


def test_mistakes_name_the_argument():
    ours = to_coda(make_model(tie_word_embeddings=True))
    tokens, targets = draw_batch()
    norm = torch.zeros(64)

    def refused(kind, text, *arguments, **options):
        with pytest.raises(kind) as caught:
            ours.loss_and_gradients(*arguments, **options)
        assert str(caught.value) == f"loss_and_gradients: {text}"

    refused(ValueError, "gradients and trainable are given, expected one of them: the gradients say what is trained and in "
            "which dtype", tokens, targets, {}, trainable=[])
    refused(ValueError, "trainable names 'x', expected names of LlamaModel.parameter_names()", tokens, targets, trainable=["x"])
    refused(ValueError, "trainable names 'model.norm.weight' twice, expected each once", tokens, targets,
            trainable=["model.norm.weight"] * 2)
    refused(ValueError, "gradient 'lm_head.weight' is of no tensor of its own: the head is tied, its gradient is part of "
            "'model.embed_tokens.weight'", tokens, targets, {"lm_head.weight": norm})
    refused(ValueError, "gradient 'model.norm.weight' has shape [63], expected [64], that of the parameter: its gradient is "
            "added to it", tokens, targets, {"model.norm.weight": norm[:63]})
    refused(ValueError, "targets has shape [23], expected [69] (T)", tokens, targets[0])
    refused(ValueError, "policy is 'best', expected one of 'fast', 'lean'", tokens, targets, policy="best")
    refused(ValueError, "stream_gradient is 'bf16', expected one of 'stream', 'f32'", tokens, targets, stream_gradient="bf16")
    refused(TypeError, "gradient 'model.norm.weight' has dtype bf16, expected f32", tokens, targets,
            {"model.norm.weight": norm.bfloat16()})
    targets[1, 2] = VOCABULARY
    refused(IndexError, f"target {VOCABULARY} in row {LENGTH + 2} is outside the vocabulary, expected 0 to {VOCABULARY - 1} "
            "or ignore_index -100", tokens, targets)


def test_what_f16_has_no_numbers_for_is_refused():
    model = make_model().half()
    tokens, targets = draw_batch()
    tokens[tokens == 96], tokens[1, 4] = 0, 96
    with torch.no_grad():
        model.model.embed_tokens.weight[96, 0] = 40000
        model.model.layers[0].input_layernorm.weight[0] = 2
    ours = to_coda(model)

    def refused(call, text, *arguments, **options):
        with pytest.raises(ValueError) as caught:
            getattr(ours, call)(*arguments, **options)
        assert str(caught.value) == f"{call}: {text}"

    def no_number(row):
        return (f"the loss of row {row} is NaN or infinite in f16, expected a number: x or x·γ has passed 65504, the largest "
                "f16, or the weights hold NaN: run the model in bf16 or f32")

    main = {"model.norm.weight": torch.zeros(64)}
    refused("loss_and_gradients", no_number(LENGTH + 4), tokens, targets, main)
    assert not main["model.norm.weight"].any()
    refused("loss", no_number(4), tokens[1], tokens[0])
    refused("loss_and_gradients", "factor is 0.001 over 54 tokens, 1.85185e-05 for each, expected at least 2^-14 = "
            "6.10352e-05, the smallest normal f16: the gradient by f16 logits loses bits below it: pass factor 65.536 with "
            "f32 gradients, and divide them by 65536", tokens, targets, factor=0.001)


def test_a_scaled_loss_in_f16():
    """The cure the error names: the gradients are those of the factor that was refused, and no worse than stock's."""
    model = make_model().half()
    tokens, targets = draw_batch()
    _, exact = exact_gradients(model, tokens, targets, factor=0.001)
    _, stock = stock_gradients(model, tokens, targets, factor=65.536)
    _, got = to_coda(model).loss_and_gradients(tokens, targets, factor=65.536, dtype="f32")
    for name, gradient in got.items():
        ours, theirs = (rms(values / 65536 - exact[name]) for values in (to_double(gradient), stock[name]))
        assert ours <= 2 * theirs + ROUNDING["f16"] * rms(exact[name]), name
