"""Small random LLaMA models: coda's against transformers', errors of both against transformers' in double."""

import json
import os
import signal
import threading

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import coda_cpp as coda
from coda_cpp import fp64
from stock_llama import random_llama
from support import to_double

VOCABULARY, TOKENS = 97, 70

VARIANTS = {
    "untied": {},
    "tied": {"tie_word_embeddings": True},
    "bias": {"attention_bias": True, "mlp_bias": True},
    "many_heads": {"num_key_value_heads": 4},
    "wide_head": {"head_dim": 32, "rms_norm_eps": 1e-5, "rope_theta": 500.0},
    "gelu": {"hidden_act": "gelu_pytorch_tanh"},
}


def make_model(**options):
    return random_llama(vocab_size=VOCABULARY, **options)


def to_coda(model, **options):
    return coda.LlamaModel(model.config.to_json_string(use_diff=False), model.state_dict(), **options)


def draw_tokens(count=TOKENS):
    return torch.randint(VOCABULARY, (count,))


@torch.no_grad()
def logits_of(model, tokens):
    return model(tokens[None]).logits[0].double().numpy()


@pytest.fixture(params=VARIANTS)
def variant(request):
    return make_model(**VARIANTS[request.param])


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_logits_and_loss_are_no_worse_than_stock(variant, dtype):
    """Errors against double of the same weights: at most twice stock's, plus one rounding of the data."""
    tokens, targets = draw_tokens(), draw_tokens()
    stock = variant.to(torch.float32 if dtype == "f32" else torch.bfloat16)
    with fp64.copy_of(stock) as widened:
        exact = logits_of(widened, tokens)
    ours = to_coda(stock)
    got, stocks = to_double(ours.logits(tokens)), logits_of(stock, tokens)
    scale = np.abs(exact).max()
    rounding = scale * (2.0**-22 if dtype == "f32" else 2.0**-8)
    assert got.shape == (TOKENS, VOCABULARY)
    assert np.abs(got - exact).max() <= 2 * np.abs(stocks - exact).max() + rounding

    def loss_of(logits):
        return torch.nn.functional.cross_entropy(torch.from_numpy(logits), targets).item()

    loss = ours.loss(tokens, targets)
    assert abs(float(loss) - loss_of(exact)) <= 2 * abs(loss_of(stocks) - loss_of(exact)) + rounding
    assert loss.counted == TOKENS


@pytest.fixture(scope="module")
def stock():
    return make_model()


@pytest.fixture(scope="module")
def ours(stock):
    return to_coda(stock)


def test_reductions_and_ignored_targets(stock, ours):
    tokens, targets = draw_tokens(), draw_tokens()
    targets[::3] = -100
    logits = torch.from_numpy(logits_of(stock, tokens))
    for reduction in ("mean", "sum"):
        expected = torch.nn.functional.cross_entropy(logits, targets, reduction=reduction).item()
        assert ours.loss(tokens, targets, reduction).value == pytest.approx(expected, rel=1e-5)
    per_token = ours.loss(tokens, targets, "none").per_token
    np.testing.assert_allclose(per_token, torch.nn.functional.cross_entropy(logits, targets, reduction="none"),
                               rtol=1e-4, atol=1e-5)
    nothing = ours.loss(tokens, torch.full((TOKENS,), -100))
    assert np.isnan(nothing.value) and nothing.counted == 0


def test_layers_are_observed_in_order(stock, ours):
    tokens, seen = draw_tokens(), []
    ours.observe_layers(tokens, lambda index, hidden: seen.append((index, hidden)))
    with torch.no_grad():
        expected = stock.model(tokens[None], output_hidden_states=True).hidden_states
    assert [index for index, _ in seen] == [0, 1, 2]
    for (_, hidden), theirs in zip(seen[:2], expected):  # transformers' last is behind the final norm
        assert isinstance(hidden, torch.Tensor)
        np.testing.assert_allclose(hidden, theirs[0], rtol=1e-4, atol=1e-4)


def test_token_kinds(ours):
    numbers = draw_tokens().tolist()
    expected = ours.logits(numbers)
    assert isinstance(expected, np.ndarray)
    for tokens in (tuple(numbers), np.array(numbers), np.array(numbers, np.int32), torch.tensor(numbers).int()):
        got = ours.logits(tokens)
        assert isinstance(got, type(tokens)) or isinstance(tokens, tuple)
        np.testing.assert_array_equal(got, expected)


def test_greedy_generation_is_stocks(stock, ours):
    prompt = draw_tokens(9)
    expected = stock.generate(prompt[None], attention_mask=torch.ones(1, 9), max_new_tokens=20, do_sample=False,
                              eos_token_id=None, pad_token_id=0)[0, 9:].tolist()
    assert ours.generate(prompt, 20) == expected
    taken = []
    assert ours.generate(prompt, 20, lambda token: taken.append(token) or len(taken) < 5) == expected[:5] == taken


def test_sampling_repeats_with_its_seed(ours):
    prompt = draw_tokens(5)
    draw = lambda seed: ours.generate(prompt, 30, temperature=2.0, top_p=0.9, seed=seed)
    assert draw(1) == draw(1) != draw(2)
    assert all(0 <= token < VOCABULARY for token in draw(3))


class Stop(Exception):
    pass


def raise_stop(*arguments):
    raise Stop


def test_exceptions_of_callbacks_pass_through(ours):
    with pytest.raises(Stop):
        ours.generate([1, 2], 5, raise_stop)
    with pytest.raises(Stop):
        ours.observe_layers([1, 2], raise_stop)


def test_ctrl_c_stops_generation(ours):
    # Started in the background by a shell, Python inherits an ignored SIGINT and installs no handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            ours.generate([1, 2, 3], 200)
    timer.cancel()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_folder_equals_memory(tmp_path, dtype):
    model, tokens = make_model().to(dtype), draw_tokens()
    model.save_pretrained(tmp_path)
    for convert in (None, "f32"):
        loaded, given = coda.LlamaModel.load(tmp_path, convert), to_coda(model, dtype=convert)
        np.testing.assert_array_equal(loaded.logits(tokens), given.logits(tokens))
    config = coda.LlamaModel.load(tmp_path).config
    assert (config.vocabulary, config.width, config.layers, config.heads, config.kv_heads, config.head) == (
        VOCABULARY, 64, 2, 4, 2, 16)


def test_a_dict_is_a_config(stock, ours):
    tokens = draw_tokens()
    again = coda.LlamaModel(json.loads(stock.config.to_json_string(use_diff=False)), stock.state_dict(), share=True)
    np.testing.assert_array_equal(again.logits(tokens), ours.logits(tokens))


def test_shared_weights_outlive_the_callers():
    model, tokens = make_model(), draw_tokens()
    shared = to_coda(model, share=True)
    expected = shared.logits(tokens)
    del model
    torch.randn(64, 1000)
    assert torch.equal(shared.logits(tokens), expected)


def test_nan_in_weights_stays_in_the_rows_it_touches(stock):
    weights = {name: tensor.clone() for name, tensor in stock.state_dict().items()}
    weights["model.embed_tokens.weight"][5, 7] = float("nan")
    model = coda.LlamaModel(stock.config.to_json_string(use_diff=False), weights)
    tokens = draw_tokens()
    tokens[tokens == 5] = 6
    tokens[40] = 5
    logits = model.logits(tokens)
    assert torch.isfinite(logits[:40]).all() and torch.isnan(logits[40:]).all()  # causal: later tokens see it


@pytest.mark.parametrize("device", ["tpu", "cuda:", "cuda:x", "cuda:-1", "cuda:12345", "cuda0"])
def test_devices_that_are_none_are_refused(stock, device):
    for call, make in (("LlamaModel", lambda: to_coda(stock, device=device)),
                       ("LlamaModel.load", lambda: coda.LlamaModel.load("nowhere", device=device))):
        with pytest.raises(ValueError) as caught:
            make()
        assert str(caught.value) == f"{call}: device is '{device}', expected 'cpu', 'cuda' or 'cuda:N'"


def test_the_cpu_is_the_default_device(stock, ours):
    assert ours.device == "cpu" == to_coda(stock, device=torch.device("cpu")).device


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_driver_is_asked_for(stock):
    with pytest.raises(NotImplementedError, match="^cuda: no NVIDIA driver is installed"):
        to_coda(stock, device="cuda")


@pytest.mark.parametrize("bad", [VOCABULARY, -1])
def test_tokens_and_targets_outside_the_vocabulary(ours, bad):
    for call in (lambda: ours.logits([1, bad, 2]), lambda: ours.loss([0, 0, 0], [1, bad, 2])):
        with pytest.raises(IndexError, match=str(bad)) as caught:
            call()
        assert isinstance(caught.value, coda.Error)


def test_files_that_are_wrong_are_refused(tmp_path, stock):
    stock.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(ValueError) as caught:
        coda.LlamaModel.load(tmp_path)
    assert isinstance(caught.value, coda.Error) and str(file) in str(caught.value)
    weights = stock.state_dict()
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, file)
    with pytest.raises(ValueError, match="model.layers.1.mlp.up_proj.weight"):
        coda.LlamaModel.load(tmp_path)
