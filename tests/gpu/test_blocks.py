"""Every block on the GPU under the 2x rule: its largest error against the CPU in fp32 is at most twice that of the CPU in
the same 16-bit dtype, plus one rounding of the data."""

import pytest
import torch

import coda_cpp as coda
from coda_cpp import blocks

T, D, F, V, HEAD, HEADS, KV_HEADS = 70, 128, 208, 300, 32, 4, 2
EPS = 1e-5
DEVICE = "cuda"
ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


@pytest.fixture
def draw(generator):
    return lambda *shape: torch.randn(shape, generator=generator) / shape[-1] ** 0.5


def tensors_of(result):
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in tensors_of(part)]
    if isinstance(result, blocks.NormedStream):
        return [result.x, result.h, result.sum_sq.sum(1)]
    return [result]


def check(run, tensors, dtype=torch.bfloat16):
    """`run` takes a dict like `tensors` and gives a tensor, a stream, or several."""
    stored = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    widened = {name: t.float() if t.is_floating_point() else t for name, t in stored.items()}
    exact = tensors_of(run(widened))
    cpu = tensors_of(run(stored))
    gpu = tensors_of(run({name: tensor.to(DEVICE) for name, tensor in stored.items()}))
    assert len(gpu) == len(exact)
    for ours, theirs, truth in zip(gpu, cpu, exact):
        assert ours.device.type == DEVICE and ours.dtype == theirs.dtype and ours.shape == truth.shape
        truth = truth.double()
        worst = (ours.cpu().double() - truth).abs().max().item()
        allowed = 2 * (theirs.double() - truth).abs().max().item() + ROUNDING[dtype] * truth.abs().max().item()
        assert worst <= allowed, f"error {worst:.3e}, allowed {allowed:.3e}"


def norm_of(t):
    return blocks.RmsNorm(t["gamma"], EPS)


def stream_of(t):
    return blocks.enter_norm(t["x"], norm_of(t))


DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])


@DTYPES
@pytest.mark.parametrize("rows", [1, 7, T, 600])
def test_enter_norm(draw, rows, dtype):
    check(stream_of, {"x": draw(rows, D), "gamma": 1 + draw(D)}, dtype)


def test_enter_norm_takes_any_strides(draw):
    check(lambda t: blocks.enter_norm(t["x"].T, norm_of(t)), {"x": draw(D, T), "gamma": 1 + draw(D)})


@pytest.mark.parametrize("width", [576, 2048, 8192])
def test_wide_norms(draw, width):
    check(lambda t: blocks.norm_linear(stream_of(t), norm_of(t), t["w"]),
          {"x": draw(9, width) * width**0.5, "gamma": 1 + draw(width), "w": draw(64, width)})


@DTYPES
def test_residual_norm(draw, dtype):
    check(lambda t: blocks.residual_norm(t["y"], t["w"], t["x"], norm_of(t)),
          {"y": draw(T, F), "w": draw(D, F), "x": draw(T, D), "gamma": 1 + draw(D)}, dtype)


@DTYPES
@pytest.mark.parametrize("bias", [False, True])
def test_norm_linear(draw, bias, dtype):
    check(lambda t: blocks.norm_linear(stream_of(t), norm_of(t), t["w"], t["b"] if bias else None),
          {"x": draw(T, D), "gamma": 1 + draw(D), "w": draw(F, D), "b": draw(F)}, dtype)


@pytest.mark.parametrize("gate", ["swiglu", "reglu", "geglu_tanh"])
def test_gated_mlp(draw, gate):
    check(lambda t: blocks.gated_mlp(stream_of(t), norm_of(t), t["g"], t["u"], gate),
          {"x": draw(T, D), "gamma": 1 + draw(D), "g": draw(F, D), "u": draw(F, D)})


@pytest.mark.parametrize("angles", ["base", "table"])
@pytest.mark.parametrize("qk_norm", [False, True])
def test_qkv_rope(draw, angles, qk_norm):
    positions = torch.arange(T, dtype=torch.int32)
    turns = positions[:, None] * 10000.0 ** (-torch.arange(HEAD // 2) * 2 / HEAD)

    def run(t):
        rope = blocks.Rope(HEAD, positions=t["positions"])
        if angles == "table":  # fp32 whatever the weights are
            rope = blocks.Rope(HEAD, cos=turns.cos().to(t["x"].device), sin=turns.sin().to(t["x"].device))
        norms = {name: blocks.RmsNorm(t[name], EPS) for name in ("q_norm", "k_norm")} if qk_norm else {}
        return blocks.qkv_rope(stream_of(t), norm_of(t), t["q"], t["k"], t["v"], rope, **norms)

    check(run, {"x": draw(T, D), "gamma": 1 + draw(D), "q": draw(HEADS * HEAD, D), "k": draw(KV_HEADS * HEAD, D),
                "v": draw(KV_HEADS * HEAD, D), "positions": positions, "q_norm": 1 + draw(HEAD), "k_norm": 1 + draw(HEAD)})


ATTENTION = [(1, 1, 4, 4, 64), (1, 1000, 9, 3, 64), (1, 70, 2, 1, 256), (7, 200, 2, 1, 8), (64, 64, 3, 3, 64),
             (130, 130, 9, 3, 64), (65, 129, 4, 1, 40), (200, 333, 2, 2, 128), (100, 100, 2, 1, 256),
             (1024, 1024, 32, 8, 64)]


@pytest.mark.parametrize("tokens, keys, heads, kv_heads, head", ATTENTION)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=["bf16", "f16", "f32"])
def test_causal_attention(draw, tokens, keys, heads, kv_heads, head, dtype):
    tensors = {"q": 4 * draw(tokens, heads * head), "k": 4 * draw(keys, kv_heads * head), "v": draw(keys, kv_heads * head)}
    run = lambda t: blocks.causal_attention(t["q"], t["k"], t["v"], heads=heads, kv_heads=kv_heads)  # noqa: E731
    if dtype != torch.float32:
        return check(run, tensors, dtype)
    torch.testing.assert_close(run({name: t.to(DEVICE) for name, t in tensors.items()}).cpu(), run(tensors), rtol=1e-4,
                               atol=1e-5)


def test_attention_takes_any_strides_and_keeps_nan_to_those_that_see_it(draw):
    packed = draw(T, 3 * 64 + 1).to(DEVICE).bfloat16()
    q, k, v = packed[:, :64], packed[:, 65:129], packed[:, 129:]
    whole = blocks.causal_attention(q.contiguous(), k.contiguous(), v.contiguous(), heads=2, kv_heads=2)
    assert torch.equal(blocks.causal_attention(q, k, v, heads=2, kv_heads=2), whole)
    packed[41, 130] = float("nan")
    got = blocks.causal_attention(q, k, v, heads=2, kv_heads=2)
    assert torch.equal(got[:41], whole[:41]) and got[41:, 1].isnan().all()


def test_attention_of_the_last_queries_has_the_same_bits(draw):
    q, k, v = draw(T, 128).to(DEVICE).bfloat16(), draw(T, 64).to(DEVICE).bfloat16(), draw(T, 64).to(DEVICE).bfloat16()
    whole = blocks.causal_attention(q, k, v, heads=4, kv_heads=2)
    for last in (1, 2, 37):
        assert torch.equal(blocks.causal_attention(q[-last:], k, v, heads=4, kv_heads=2), whole[-last:])


@pytest.mark.parametrize("vocabulary", [V, 20000])
@pytest.mark.parametrize("where", ["cpu", "gpu"])
def test_lm_head_loss(draw, vocabulary, where):
    x, gamma, w = draw(T, D).bfloat16(), (1 + draw(D)).bfloat16(), (draw(vocabulary, D) * 3).bfloat16()
    targets = torch.arange(T) * 31 % vocabulary
    targets[4] = -100
    t = {"x": x.to(DEVICE), "gamma": gamma.to(DEVICE)}
    at = targets.to(DEVICE) if where == "gpu" else targets
    got = blocks.lm_head_loss(stream_of(t), norm_of(t), w.to(DEVICE), at)
    wide = {"x": x.float(), "gamma": gamma.float()}
    exact = blocks.lm_head_loss(stream_of(wide), norm_of(wide), w.float(), targets)
    assert got.counted == T - 1 and got.per_token[4] == 0
    assert abs(float(got) - float(exact)) <= 2.0**-8 * float(exact)
    targets[2] = vocabulary
    with pytest.raises(IndexError, match=f"target {vocabulary} in row 2"):
        blocks.lm_head_loss(stream_of(t), norm_of(t), w.to(DEVICE), targets.to(DEVICE))


def run_layer(t, heads, kv_heads, head):
    norm = norm_of(t)
    weights = blocks.LayerWeights(input_norm=norm, post_norm=norm,
                                  **{name: t[name] for name in ("q", "k", "v", "o", "gate", "up", "down")})
    rope = blocks.Rope(head, positions=torch.arange(len(t["x"]), device=t["x"].device))
    return blocks.transformer_layer(stream_of(t), weights, rope, norm, heads=heads, kv_heads=kv_heads)


@pytest.mark.parametrize("tokens, width, mlp, heads, kv_heads, head",
                         [(T, D, F, HEADS, KV_HEADS, HEAD), (1, D, F, HEADS, KV_HEADS, HEAD), (129, 576, 1536, 9, 3, 64),
                          (512, 2048, 8192, 32, 8, 64)], ids=["small", "one", "smollm2", "llama3_1b"])
def test_a_layer(draw, tokens, width, mlp, heads, kv_heads, head):
    queries, keys = heads * head, kv_heads * head
    check(lambda t: run_layer(t, heads, kv_heads, head),
          {"x": draw(tokens, width) * width**0.5, "gamma": 1 + draw(width), "q": draw(queries, width),
           "k": draw(keys, width), "v": draw(keys, width), "o": draw(width, queries), "gate": draw(mlp, width),
           "up": draw(mlp, width), "down": draw(width, mlp)})


def test_blocks_run_on_torchs_current_stream(draw):
    x, gamma, w = draw(2000, D).bfloat16().to(DEVICE), (1 + draw(D)).bfloat16().to(DEVICE), draw(F, D).bfloat16().to(DEVICE)
    norm = blocks.RmsNorm(gamma, EPS)
    expected = blocks.norm_linear(blocks.enter_norm(x, norm), norm, w)
    stream = torch.cuda.Stream()
    held = torch.zeros_like(x)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # what reads `held` on another stream would see the zeros
        held.copy_(x)
        got = blocks.norm_linear(blocks.enter_norm(held, norm), norm, w)
    stream.synchronize()
    assert torch.equal(got, expected)


def test_a_tensor_elsewhere_is_named(draw):
    x, gamma = draw(T, D).bfloat16().to(DEVICE), (1 + draw(D)).bfloat16()
    with pytest.raises(ValueError) as caught:
        blocks.enter_norm(x, blocks.RmsNorm(gamma))
    assert str(caught.value) == "enter_norm: norm.weight is on cpu, expected cuda:0, the device of x: copy it there"
    norm = blocks.RmsNorm(gamma.to(DEVICE))
    with pytest.raises(ValueError) as caught:
        blocks.norm_linear(blocks.enter_norm(x, norm), norm, draw(F, D).bfloat16())
    assert str(caught.value) == "norm_linear: weight is on cpu, expected cuda:0, the device of stream.x: copy it there"
    assert isinstance(caught.value, coda.Error)
