"""Models on the GPU against the same weights on the CPU: fp32 there is the truth, bf16 there the measure of rounding."""

import json

import pytest
import torch

import coda_cpp as coda
from random_llama import KINDS, VOCABULARY, config_of, weights_of
from support import torch_generator

TOKENS = 70
DEVICE = "cuda"


class Case:
    def __init__(self, kind):
        self.generator = torch_generator()
        self.config = json.dumps(config_of(kind))
        self.weights = weights_of(config_of(kind), self.generator)
        self.exact = coda.LlamaModel(self.config, self.weights, dtype="f32")
        self.cpu = coda.LlamaModel(self.config, self.weights)
        self.gpu = coda.LlamaModel(self.config, self.weights, device=DEVICE)

    def tokens(self, count=TOKENS):
        return torch.randint(VOCABULARY, (count,), generator=self.generator)


@pytest.fixture(scope="module", params=KINDS)
def case(request):
    return Case(request.param)


@pytest.fixture(scope="module")
def llama():
    return Case("llama")


def expect_no_worse(ours, theirs, truth):
    assert ours.device.type == DEVICE and ours.shape == truth.shape
    truth = truth.double()
    worst = (ours.cpu().double() - truth).abs().max().item()
    allowed = 2 * (theirs.double() - truth).abs().max().item() + 2.0**-8 * truth.abs().max().item()
    assert worst <= allowed, f"error {worst:.3e}, allowed {allowed:.3e}"


@pytest.mark.parametrize("count", [1, 9, TOKENS, 300])
def test_logits(case, count):
    tokens = case.tokens(count)
    got = case.gpu.logits(tokens)
    assert got.dtype == torch.float32
    expect_no_worse(got, case.cpu.logits(tokens), case.exact.logits(tokens))
    assert torch.equal(case.gpu.logits(tokens.to(DEVICE).int()), got), "tokens on the GPU"


def test_layers(case):
    tokens, seen = case.tokens(), {}
    for name in ("gpu", "cpu", "exact"):
        seen[name] = []
        getattr(case, name).observe_layers(tokens, lambda index, hidden: seen[name].append(hidden))
    assert len(seen["gpu"]) == 3
    for ours, theirs, truth in zip(*seen.values()):
        expect_no_worse(ours, theirs, truth)


def test_loss(case):
    tokens, targets = case.tokens(), case.tokens()
    targets[::3] = -100
    ours, exact = (model.loss(tokens, targets) for model in (case.gpu, case.exact))
    assert ours.counted == exact.counted
    assert abs(float(ours) - float(exact)) <= 2.0**-7 * float(exact)
    summed = case.gpu.loss(tokens.to(DEVICE), targets.to(DEVICE), "sum")
    assert summed.value == pytest.approx(ours.value * ours.counted, rel=1e-6)


def test_decoding_over_the_cache_follows_the_logits(case):
    """Each token is the likeliest of the logits of all before it, but for a tie within rounding."""
    prompt = case.tokens(9).tolist()
    made = case.gpu.generate(prompt, 80)
    logits = torch.as_tensor(case.gpu.logits(prompt + made))[len(prompt) - 1:-1]
    chosen = logits.gather(1, torch.tensor(made, device=DEVICE)[:, None])[:, 0]
    assert (logits.max(1).values - chosen).max() <= 2.0**-5 * logits.abs().max()


def test_sampling_repeats_with_its_seed(llama):
    draw = lambda seed: llama.gpu.generate([1, 2, 3], 30, temperature=2.0, top_p=0.9, seed=seed)  # noqa: E731
    assert draw(1) == draw(1) != draw(2)


def test_the_same_call_gives_the_same_bits(llama):
    tokens = llama.tokens(300)
    first = llama.gpu.logits(tokens)
    assert all(torch.equal(llama.gpu.logits(tokens), first) for _ in range(3))


def test_weights_on_the_gpu_are_shared_and_copied(llama):
    tokens = llama.tokens()
    expected = llama.gpu.logits(tokens)
    there = {name: weight.to(DEVICE) for name, weight in llama.weights.items()}
    shared = coda.LlamaModel(llama.config, there, share=True, device=DEVICE)
    copied = coda.LlamaModel(llama.config, there, device="cuda:0")
    converted = coda.LlamaModel(llama.config, {name: w.float() for name, w in there.items()}, dtype="bf16", device=DEVICE)
    del there
    for model in (shared, copied, converted):
        assert model.device == "cuda:0"
        assert torch.equal(model.logits(tokens), expected)


def test_a_folder_is_loaded_onto_the_gpu(llama, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file(llama.weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(llama.config)
    tokens = llama.tokens()
    assert torch.equal(coda.LlamaModel.load(tmp_path, device=DEVICE).logits(tokens), llama.gpu.logits(tokens))


def test_a_model_runs_on_torchs_current_stream(llama):
    tokens, stream = llama.tokens(), torch.cuda.Stream()
    expected = llama.gpu.logits(tokens)
    with torch.cuda.stream(stream):
        got = llama.gpu.logits(tokens) * 1
    stream.synchronize()
    assert torch.equal(got, expected)


def test_results_outlive_the_model_and_memory_comes_back(llama):
    tokens = llama.tokens()
    expected = llama.gpu.logits(tokens)
    for _ in range(3):
        model = coda.LlamaModel(llama.config, llama.weights, device=DEVICE)
        got = model.logits(tokens)
        del model
        assert torch.equal(got, expected)
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(50):
        llama.gpu.logits(tokens)
    torch.cuda.synchronize()
    assert before - torch.cuda.mem_get_info()[0] < 64 << 20


@pytest.mark.parametrize("bad", [VOCABULARY, -1])
@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_tokens_and_targets_outside_the_vocabulary(llama, bad, place):
    wrong, good = torch.tensor([1, bad, 2], device=place), torch.tensor([1, 0, 2], device=place)
    for call in (lambda: llama.gpu.logits(wrong), lambda: llama.gpu.loss(good, wrong)):
        with pytest.raises(IndexError, match=f"{bad} in row 1 is outside the vocabulary"):
            call()


def test_devices_that_do_not_go_together_are_named(llama):
    there = {name: weight.to(DEVICE) for name, weight in llama.weights.items()}
    with pytest.raises(NotImplementedError, match="is on cuda:0, expected host memory: copy it first"):
        coda.LlamaModel(llama.config, there)
    with pytest.raises(ValueError) as caught:
        llama.cpu.logits(torch.tensor([1], device=DEVICE))
    assert str(caught.value) == "logits: tokens is on cuda:0, expected cpu, the device of the model: copy it there"
    with pytest.raises(ValueError, match="cuda: got device cuda:99, expected cuda:0"):
        coda.LlamaModel(llama.config, llama.weights, device="cuda:99")


def test_fp32_weights_are_refused_by_the_product(llama):
    model = coda.LlamaModel(llama.config, llama.weights, dtype="f32", device=DEVICE)
    with pytest.raises(NotImplementedError, match="f32"):
        model.logits([1, 2])
