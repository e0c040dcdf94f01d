"""One decoder layer forward on the CPU, 512 tokens: transformers' LlamaDecoderLayer (sdpa) and coda's.

Both start from the residual stream and end in it. coda's layer leaves what the next norm needs and finds what its own
first norm needs, as it does inside a model: a layer holds one input norm's work either way. Stock is entered twice; its
second entry must read 1.

    python bench/layer_forward.py [--rounds N] [--threads N] [--output FOLDER]
"""

from collections.abc import Callable
from dataclasses import dataclass

import common
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from coda_cpp import blocks
from coda_cpp.demo.paired import time_rounds

TOKENS = 512
HEAD = 64


@dataclass(frozen=True)
class Size:
    width: int
    mlp: int
    heads: int
    kv_heads: int

    def __str__(self) -> str:
        return f"{TOKENS}x{self.width}x{self.mlp}"


SIZES = [Size(576, 1536, 9, 3), Size(2048, 8192, 32, 8)]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
WARMUP = 3


def stock_layer(size: Size, dtype: torch.dtype) -> tuple[LlamaDecoderLayer, tuple[torch.Tensor, torch.Tensor]]:
    """A layer with random weights of a trained layer's scale, and the rotary cos and sin it is given."""
    config = LlamaConfig(
        hidden_size=size.width,
        intermediate_size=size.mlp,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=HEAD,
        attn_implementation="sdpa",
    )
    layer = LlamaDecoderLayer(config, 0)
    for weight in layer.parameters():
        scale = weight.shape[-1] ** -0.5 if weight.dim() == 2 else 0.2
        torch.nn.init.normal_(weight, mean=0.0 if weight.dim() == 2 else 1.0, std=scale)
    x = torch.empty(1, TOKENS, size.width, dtype=dtype)
    angles = LlamaRotaryEmbedding(config)(x, torch.arange(TOKENS)[None])
    return layer.to(dtype).eval(), angles


def coda_layer(size: Size, layer: LlamaDecoderLayer, x: torch.Tensor) -> Callable[[], blocks.NormedStream]:
    """The same layer in coda, on the same residual stream."""
    weight = {name: parameter.detach() for name, parameter in layer.named_parameters()}
    eps = layer.input_layernorm.variance_epsilon
    first = blocks.RmsNorm(weight["input_layernorm.weight"], eps)
    second = blocks.RmsNorm(weight["post_attention_layernorm.weight"], eps)
    weights = blocks.LayerWeights(
        input_norm=first,
        post_norm=second,
        **{name: weight[f"self_attn.{name}_proj.weight"] for name in "qkvo"},
        **{name: weight[f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down")},
    )
    rope = blocks.Rope(HEAD, positions=torch.arange(TOKENS, dtype=torch.int32))
    stream = blocks.enter_norm(x, first)
    return lambda: blocks.transformer_layer(
        stream, weights, rope, first, heads=size.heads, kv_heads=size.kv_heads
    )


@torch.inference_mode()
def measure(size: Size, dtype: str, rounds: int) -> list[common.Row]:
    layer, angles = stock_layer(size, DTYPES[dtype])
    x = torch.randn(TOKENS, size.width).to(DTYPES[dtype])

    def stock() -> torch.Tensor:
        return layer(x[None], position_embeddings=angles)

    ours = coda_layer(size, layer, x)
    check_equal(stock()[0], ours().x, dtype)
    entries = {"stock": stock, "coda": ours, common.CONTROL: stock}
    timings = time_rounds(entries, baseline="stock", rounds=rounds, warmup=WARMUP)
    return common.rows("layer_fwd", str(size), dtype, timings)


def check_equal(stock: torch.Tensor, coda: torch.Tensor, dtype: str) -> None:
    """A benchmark of something else would be worth nothing: both must compute the same layer."""
    limit = {"f32": 1e-4, "bf16": 5e-2}[dtype]
    error = float((stock.float() - torch.as_tensor(coda).float()).norm() / stock.float().norm())
    if not error <= limit:
        raise SystemExit(f"layer_forward: coda and stock differ by {error:.1e} relative in {dtype}, limit {limit:.0e}")


def main() -> None:
    options = common.arguments(__doc__.splitlines()[0]).parse_args()
    common.use_threads(options.threads)
    torch.manual_seed(0)
    found: list[common.Row] = []
    for size in SIZES:
        for dtype in DTYPES:
            measured = measure(size, dtype, options.rounds)
            common.show(measured)
            found += measured
    common.finish(options, "cpu_layer", found)


if __name__ == "__main__":
    main()
