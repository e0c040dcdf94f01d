"""The Transformer blocks against their formulas in double, and a whole layer against transformers'."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

import coda_cpp as coda
from coda_cpp import blocks, fp64
from support import check_close, generator, to_double

T, D, F, V, HEAD, HEADS, KV_HEADS = 21, 128, 96, 75, 32, 4, 2
EPS = 1e-5


class Case:
    """Random tensors in fp32 and the norm they go through."""

    def __init__(self):
        rng = generator()
        self.draw = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        self.x, self.gamma = self.draw(T, D), self.draw(D) + 1
        self.norm = blocks.RmsNorm(self.gamma, EPS)
        self.stream = blocks.enter_norm(self.x, self.norm)
        x = to_double(self.x)
        self.normed = x / np.sqrt((x**2).mean(1, keepdims=True) + EPS) * to_double(self.gamma)


@pytest.fixture
def case():
    return Case()


def test_enter_norm(case):
    np.testing.assert_array_equal(case.stream.x, case.x)
    check_close(case.stream.h, to_double(case.x) * to_double(case.gamma))
    check_close(case.stream.sum_sq.sum(1), (to_double(case.x) ** 2).sum(1))


def test_residual_norm(case):
    y, weight = case.draw(T, F), case.draw(D, F)
    stream = blocks.residual_norm(y, weight, case.x, case.norm)
    check_close(stream.x, to_double(y) @ to_double(weight).T + to_double(case.x))


@pytest.mark.parametrize("with_bias", [False, True])
def test_norm_linear(case, with_bias):
    weight, bias = case.draw(F, D), case.draw(F)
    got = blocks.norm_linear(case.stream, case.norm, weight, bias if with_bias else None)
    check_close(got, case.normed @ to_double(weight).T + with_bias * to_double(bias))


def test_gated_mlp(case):
    gate, up = case.draw(F, D), case.draw(F, D)
    got = blocks.gated_mlp(case.stream, case.norm, gate, up, "reglu")
    check_close(got, np.maximum(case.normed @ to_double(gate).T, 0) * (case.normed @ to_double(up).T))


def test_qkv_rope_rotates_q_and_k(case):
    q, k, v = case.draw(HEADS * HEAD, D), case.draw(KV_HEADS * HEAD, D), case.draw(KV_HEADS * HEAD, D)
    rope = blocks.Rope(HEAD, positions=np.zeros(T, np.int32))
    for got, weight in zip(blocks.qkv_rope(case.stream, case.norm, q, k, v, rope), (q, k, v), strict=True):
        check_close(got, case.normed @ to_double(weight).T)  # position 0 turns nothing
    turned = blocks.qkv_rope(case.stream, case.norm, q, k, v, blocks.Rope(HEAD, positions=np.arange(T)))
    plain = blocks.qkv_rope(case.stream, case.norm, q, k, v, rope)
    for before, after in zip(plain[:2], turned[:2]):
        assert np.abs(before - after).max() > 0.1
        np.testing.assert_allclose((before**2).sum(1), (after**2).sum(1), rtol=1e-4)
    np.testing.assert_array_equal(plain[2], turned[2])


def test_causal_attention(case):
    q, k, v = (torch.from_numpy(case.draw(T, heads * HEAD)) for heads in (HEADS, KV_HEADS, KV_HEADS))
    got = blocks.causal_attention(q, k, v, heads=HEADS, kv_heads=KV_HEADS)
    split = lambda x, heads: x.double().view(1, T, heads, HEAD).transpose(1, 2)
    expected = torch.nn.functional.scaled_dot_product_attention(
        split(q, HEADS), split(k, KV_HEADS), split(v, KV_HEADS), is_causal=True, enable_gqa=True)
    check_close(got, expected.transpose(1, 2).reshape(T, -1).numpy())


def test_lm_head_loss(case):
    weight, targets = case.draw(V, D), np.arange(T) % V
    targets[4] = -100
    logits = torch.from_numpy(case.normed @ to_double(weight).T)
    loss = blocks.lm_head_loss(case.stream, case.norm, weight, targets)
    assert float(loss) == pytest.approx(torch.nn.functional.cross_entropy(logits, torch.from_numpy(targets)).item(), rel=1e-5)
    assert loss.counted == T - 1 and loss.per_token[4] == 0
    targets[2] = V
    with pytest.raises(IndexError, match=f"{V}"):
        blocks.lm_head_loss(case.stream, case.norm, weight, targets)


@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_is_transformers(bias):
    config = LlamaConfig(hidden_size=D, intermediate_size=F, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
                         head_dim=HEAD, rms_norm_eps=EPS, attention_bias=bias, mlp_bias=bias)
    config._attn_implementation = "sdpa"
    layer = LlamaDecoderLayer(config, 0).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else parameter.shape[1] ** -0.5))
        x = torch.randn(T, D)
        cos, sin = LlamaRotaryEmbedding(config)(x, torch.arange(T)[None])
        with fp64.copy_of(layer) as exact:
            expected = exact(x[None].double(), position_embeddings=(cos.double(), sin.double()))
    expected = (expected[0] if isinstance(expected, tuple) else expected).reshape(T, D).numpy()

    attention, mlp = layer.self_attn, layer.mlp
    projections = {"q": attention.q_proj, "k": attention.k_proj, "v": attention.v_proj, "o": attention.o_proj,
                   "gate": mlp.gate_proj, "up": mlp.up_proj, "down": mlp.down_proj}
    biases = {f"{name}_bias": module.bias for name, module in projections.items()}
    norm = blocks.RmsNorm(layer.input_layernorm.weight, EPS)
    weights = blocks.LayerWeights(input_norm=norm, post_norm=blocks.RmsNorm(layer.post_attention_layernorm.weight, EPS),
                                  **{name: module.weight for name, module in projections.items()}, **biases)
    rope = blocks.Rope(HEAD, positions=torch.arange(T))
    stream = blocks.transformer_layer(blocks.enter_norm(x, norm), weights, rope, norm, heads=HEADS, kv_heads=KV_HEADS)
    assert isinstance(stream.x, torch.Tensor)
    check_close(stream.x, expected, slack=2e-5)


def test_mistakes_name_block_and_argument(case):
    with pytest.raises(TypeError) as caught:
        blocks.norm_linear(case.stream, case.norm, [1.0])
    assert str(caught.value) == ("norm_linear: argument 'weight' is a list, expected a dense CPU tensor: a numpy array, a "
                                 "torch tensor, or any object with __dlpack__ or __array_interface__")
    with pytest.raises(ValueError, match="^norm_linear: ") as caught:
        blocks.norm_linear(case.stream, case.norm, case.draw(F, D + 1))
    assert isinstance(caught.value, coda.Error)
