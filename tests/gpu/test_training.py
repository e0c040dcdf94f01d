"""Training on the GPU under the 2x rule: the error against the CPU in fp32, as a root of mean squares, is at most twice that
of the CPU in the same 16-bit dtype, plus one rounding of the data."""

import json

import pytest
import torch

import coda_cpp as coda
from coda_cpp import blocks, training
from random_llama import KINDS, VOCABULARY, config_of, weights_of

DEVICE = "cuda"
EPS = 1e-5
ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


@pytest.fixture
def draw(generator):
    return lambda *shape: torch.randn(shape, generator=generator)


def rms(values):
    return values.double().square().mean().sqrt().item()


def expect_no_worse(gpu, cpu, exact, rounding, noise=0.0):
    """Dicts of tensors. noise: what is left of sums in fp32 whose result is 0."""
    assert gpu.keys() == exact.keys()
    for name, truth in exact.items():
        ours, theirs = gpu[name], cpu[name]
        assert ours.device.type == DEVICE and ours.shape == truth.shape and ours.dtype == theirs.dtype, name
        error, allowed = rms(ours.cpu().double() - truth), 2 * rms(theirs.double() - truth) + rounding * rms(truth) + noise
        assert error <= allowed, f"{name}: error {error:.3e}, allowed {allowed:.3e}"


def check(run, tensors, dtype, noise=0.0):
    """`run` takes a dict like `tensors` and gives a dict of tensors."""
    stored = {name: t.to(dtype) if t.is_floating_point() else t for name, t in tensors.items()}
    exact = run({name: t.float() if t.is_floating_point() else t for name, t in stored.items()})
    gpu = run({name: t.to(DEVICE) for name, t in stored.items()})
    expect_no_worse(gpu, run(stored), exact, ROUNDING[dtype], noise)


def attention_gradients(t, sequences=1, **heads):
    saved = training.causal_attention_saved(t["q"], t["k"], t["v"], sequences=sequences, **heads)
    d = training.causal_attention_backward(t["d_out"], t["q"], t["k"], t["v"], saved, sequences=sequences, **heads)
    return {"out": saved.out, "lse": saved.lse, **dict(zip("qkv", d))}


# Tokens of a sequence, sequences, heads, kv_heads, head.
ATTENTION = [(1, 1, 4, 2, 64), (9, 3, 4, 1, 8), (70, 2, 9, 3, 64), (130, 1, 2, 2, 40), (257, 1, 3, 1, 128),
             (100, 2, 2, 1, 192), (100, 1, 2, 1, 256), (2048, 1, 32, 8, 64), (1024, 2, 16, 8, 128)]


@pytest.mark.parametrize("tokens, sequences, heads, kv_heads, head", ATTENTION)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=["bf16", "f16", "f32"])
def test_attention(draw, tokens, sequences, heads, kv_heads, head, dtype):
    rows = tokens * sequences
    tensors = {"q": draw(rows, heads * head), "k": draw(rows, kv_heads * head), "v": draw(rows, kv_heads * head),
               "d_out": draw(rows, heads * head)}
    run = lambda t: attention_gradients(t, sequences, heads=heads, kv_heads=kv_heads)  # noqa: E731
    noise = 2.0**-22 * head**0.5  # one key alone: gradients by q and k are differences of two sums of `head` products
    if dtype != torch.float32:
        return check(run, tensors, dtype, noise)
    expected, got = run(tensors), run({name: t.to(DEVICE) for name, t in tensors.items()})
    for name, truth in expected.items():
        assert rms(got[name].cpu().double() - truth) <= 1e-5 * rms(truth) + noise, name


def test_attention_takes_any_strides_and_repeats(draw):
    packed = draw(70, 4 * 64 + 1).to(DEVICE).bfloat16()
    parts = {"q": packed[:, :64], "k": packed[:, 65:129], "v": packed[:, 129:193], "d_out": packed[:, 193:]}
    expected = attention_gradients({name: t.contiguous() for name, t in parts.items()}, heads=2, kv_heads=2)
    for _ in range(3):
        for name, got in attention_gradients(parts, heads=2, kv_heads=2).items():
            assert torch.equal(got, expected[name]), name


def test_attention_refuses_odd_heads(draw):
    x = draw(9, 40).to(DEVICE).bfloat16()
    with pytest.raises(NotImplementedError, match="heads have 20 columns, expected a multiple of 8 up to 256 on a GPU"):
        training.causal_attention_saved(x, x, x, heads=2, kv_heads=2)


def layer_gradients(t, heads, kv_heads, head, policy, sequences):
    """A layer and its head: the loss's gradients by everything."""
    p = {name: value for name, value in t.items() if name not in ("targets", "positions")}
    norm = lambda name: blocks.RmsNorm(p[name], EPS)  # noqa: E731
    matrices = {name: p[name] for name in ("q", "k", "v", "o", "gate", "up", "down")}
    biases = {name: value for name, value in p.items() if name.endswith("_bias")}
    norms = {name: norm(name) for name in ("q_norm", "k_norm") if name in p}
    weights = blocks.LayerWeights(input_norm=norm("input_norm"), post_norm=norm("post_norm"), **matrices, **biases, **norms)
    rope = blocks.Rope(head, positions=t["positions"])
    shape = {"heads": heads, "kv_heads": kv_heads, "sequences": sequences}
    main = {name: torch.zeros_like(value, dtype=torch.float32) for name, value in p.items() if name != "x"}
    into = {name: value for name, value in main.items() if name not in ("head", "input_norm")}
    start = blocks.enter_norm(p["x"], norm("input_norm"))
    stream, saved = training.transformer_layer_saved(start, weights, rope, norm("next_norm"), policy=policy, **shape)
    _, gradient = training.lm_head_loss_backward(stream, norm("next_norm"), p["head"], t["targets"], chunk_tokens=64,
                                                 into={"weight": main["head"]})
    gradient = training.transformer_layer_backward(gradient, training.saved_stream(stream, policy), saved, weights, rope,
                                                   norm("next_norm"), into=into, **shape)
    main["x"] = training.stream_backward(gradient, training.saved_stream(start), norm("input_norm"),
                                         into={"norm_weight": main["input_norm"]})
    return main


# Tokens, width, MLP, heads, kv_heads, head, vocabulary, what else the projections have.
LAYERS = {"small": (70, 128, 208, 4, 2, 32, 300, ()), "biases": (130, 128, 208, 4, 2, 32, 301, ("bias",)),
          "wide_heads": (130, 256, 320, 2, 1, 128, 300, ("bias", "norm")), "odd_heads": (70, 160, 208, 2, 1, 80, 300, ("bias",)),
          "smollm2": (258, 576, 1536, 9, 3, 64, 5000, ()), "qwen3": (256, 1024, 3072, 16, 8, 128, 5000, ("norm",)),
          "llama3_1b": (512, 2048, 8192, 32, 8, 64, 20000, ())}


@pytest.mark.parametrize("policy", ["fast", "lean"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_and_its_head(draw, generator, name, policy):
    tokens, width, mlp, heads, kv_heads, head, vocabulary, extras = LAYERS[name]
    queries, keys = heads * head, kv_heads * head
    shapes = {"q": (queries, width), "k": (keys, width), "v": (keys, width), "o": (width, queries), "gate": (mlp, width),
              "up": (mlp, width), "down": (width, mlp), "head": (vocabulary, width)}
    tensors = {name: draw(*shape) / shape[1]**0.5 for name, shape in shapes.items()} | {"x": draw(tokens, width)}
    tensors |= {name: 1 + 0.2 * draw(width) for name in ("input_norm", "post_norm", "next_norm")}
    if "bias" in extras:
        tensors |= {f"{name}_bias": 0.3 * draw(shape[0]) for name, shape in shapes.items() if name != "head"}
    if "norm" in extras:
        tensors |= {name: 1 + 0.2 * draw(head) for name in ("q_norm", "k_norm")}
    tensors["targets"] = torch.randint(vocabulary, (tokens,), generator=generator)
    tensors["targets"][::5] = -100
    tensors["positions"] = torch.arange(tokens // 2).repeat(2)
    check(lambda t: layer_gradients(t, heads, kv_heads, head, policy, 2), tensors, torch.bfloat16)


def test_column_sums_of_more_rows_than_a_load_finishes(draw):
    """The gradient by γ over 4097 tokens and more has more partials than one pass takes."""
    def run(t):
        norm = blocks.RmsNorm(t["gamma"], EPS)
        saved = training.saved_stream(blocks.enter_norm(t["x"], norm))
        into = {"norm_weight": torch.zeros_like(t["gamma"], dtype=torch.float32)}
        gradient = training.norm_linear_backward(t["d"], t["out"], saved, norm, t["w"])
        return {"x": training.stream_backward(gradient, saved, norm, into=into), "gamma": into["norm_weight"]}
    check(run, {"x": draw(9000, 64), "gamma": 1 + 0.2 * draw(64), "w": draw(96, 64) / 8, "d": draw(9000, 96),
                "out": draw(9000, 96)}, torch.bfloat16)


class Case:
    def __init__(self, kind, generator, **options):
        self.generator = generator
        self.config = json.dumps(config_of(kind))
        self.weights = weights_of(config_of(kind), generator)
        self.exact = coda.LlamaModel(self.config, self.weights, dtype="f32")
        self.cpu = coda.LlamaModel(self.config, self.weights)
        self.gpu = coda.LlamaModel(self.config, self.weights, device=DEVICE, **options)

    def batch(self, *shape):
        tokens, targets = (torch.randint(VOCABULARY, shape, generator=self.generator) for _ in range(2))
        targets[..., ::5] = -100
        return tokens, targets


@pytest.mark.parametrize("policy, stream_gradient", [("fast", "stream"), ("lean", "stream"), ("lean", "f32")])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_models(generator, kind, policy, stream_gradient):
    case = Case(kind, generator)
    tokens, targets = case.batch(3, 70)
    options = {"policy": policy, "stream_gradient": stream_gradient, "dtype": "f32", "chunk_tokens": 64}
    exact_loss, exact = case.exact.loss_and_gradients(tokens, targets, **options)
    _, cpu = case.cpu.loss_and_gradients(tokens, targets, **options)
    loss, gpu = case.gpu.loss_and_gradients(tokens, targets, **options)
    assert loss.counted == exact_loss.counted and abs(float(loss) - float(exact_loss)) <= 2.0**-7 * float(exact_loss)
    expect_no_worse(gpu, cpu, exact, ROUNDING[torch.bfloat16])


def test_gradients_repeat_and_are_added(generator):
    case = Case("qwen2", generator)
    tokens, targets = (t.to(DEVICE) for t in case.batch(4, 150))
    _, first = case.gpu.loss_and_gradients(tokens, targets)
    for _ in range(3):
        for name, gradient in case.gpu.loss_and_gradients(tokens, targets)[1].items():
            assert torch.equal(gradient, first[name]), name
    assert all(g.dtype == torch.bfloat16 and g.device.type == DEVICE for g in first.values())
    names = ["model.embed_tokens.weight", "model.layers.1.self_attn.q_proj.bias"]
    main = {name: torch.ones(first[name].shape, device=DEVICE) for name in names}
    _, again = case.gpu.loss_and_gradients(tokens, targets, main, factor=0.5)
    for name in names:
        assert again[name] is main[name]
        torch.testing.assert_close(main[name], 1 + first[name].float() / 2, rtol=2.0**-6, atol=2.0**-10)


def test_a_stream_beyond_f16_is_refused(generator):
    case = Case("llama", generator)
    case.weights["model.embed_tokens.weight"][7, 0] = 40000
    case.weights["model.layers.0.input_layernorm.weight"][0] = 2
    model = coda.LlamaModel(case.config, case.weights, dtype="f16", device=DEVICE)
    tokens, targets = case.batch(150)
    tokens[tokens == 7], tokens[70], targets[70] = 0, 7, 1
    main = {"model.norm.weight": torch.zeros(len(case.weights["model.norm.weight"]), device=DEVICE)}
    for refused in (lambda: model.loss(tokens, targets), lambda: model.loss_and_gradients(tokens, targets, main)):
        with pytest.raises(ValueError, match="the loss of row 70 is NaN or infinite in f16, expected a number"):
            refused()
    assert not main["model.norm.weight"].any()


@pytest.mark.parametrize("repeated", [False, True], ids=["any", "one"])
def test_embedding_gradient_of_many_tokens(generator, repeated):
    case = Case("llama", generator)
    tokens, targets = case.batch(16, 500)
    if repeated:
        tokens[:] = 7
    options = {"trainable": ["model.embed_tokens.weight"], "dtype": "f32"}
    exact, cpu, gpu = (model.loss_and_gradients(tokens, targets, **options)[1] for model in (case.exact, case.cpu, case.gpu))
    expect_no_worse(gpu, cpu, exact, ROUNDING[torch.bfloat16])


def test_training_follows_the_optimizer(generator):
    """Shared weights on the GPU: AdamW lowers the loss of a sequence that counts up."""
    config = config_of("llama")
    weights = {name: w.to(DEVICE) for name, w in weights_of(config, generator).items()}
    model = coda.LlamaModel(json.dumps(config), weights, share=True, device=DEVICE)
    parameters = {name: weights[name] for name in model.parameter_names()}
    optimizer = torch.optim.AdamW(parameters.values(), lr=3e-3)
    losses = []
    for _ in range(30):
        start = torch.randint(VOCABULARY, (8, 1), generator=generator)
        tokens = (start + torch.arange(33)) % VOCABULARY
        loss, gradients = model.loss_and_gradients(tokens[:, :-1], tokens[:, 1:], policy="lean")
        for name, gradient in gradients.items():
            parameters[name].grad = gradient.reshape(parameters[name].shape)
        optimizer.step()
        losses.append(loss.value)
    assert losses[-1] < losses[0] / 2


def test_training_runs_on_torchs_current_stream(generator):
    case = Case("llama", generator)
    tokens, targets = case.batch(2, 70)
    _, expected = case.gpu.loss_and_gradients(tokens, targets)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        _, got = case.gpu.loss_and_gradients(tokens, targets)
        copies = {name: gradient * 1 for name, gradient in got.items()}
    stream.synchronize()
    assert all(torch.equal(copies[name], gradient) for name, gradient in expected.items())


def test_gradients_elsewhere_are_named(generator):
    case = Case("llama", generator)
    tokens, targets = case.batch(9)
    name = "model.norm.weight"
    with pytest.raises(ValueError, match=f"gradient '{name}' is on cpu, expected cuda:0"):
        case.gpu.loss_and_gradients(tokens, targets, {name: torch.zeros(128)})
