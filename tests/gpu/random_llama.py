"""Small random models of the families coda runs: config, and weights by checkpoint name, in bf16 on the CPU."""

import torch

VOCABULARY = 97

# What differs from LLaMA, and in its config.
KINDS = {
    "llama": {"model_type": "llama"},
    "tied": {"model_type": "llama", "tie_word_embeddings": True},
    "biases": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "qwen2": {"model_type": "qwen2"},
    "qwen3": {"model_type": "qwen3", "head_dim": 64},
    "gelu": {"model_type": "llama", "hidden_act": "gelu_pytorch_tanh"},
}


def config_of(kind):
    return {"vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 208, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "max_position_embeddings": 512, "tie_word_embeddings": False, **KINDS[kind]}


def weights_of(config, generator):
    width, mlp, head = config["hidden_size"], config["intermediate_size"], config.get("head_dim", 0)
    head = head or width // config["num_attention_heads"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    qkv_bias = config["model_type"] == "qwen2" or config.get("attention_bias", False)
    weights = {}

    def matrix(name, rows, cols, bias=False):
        weights[f"{name}.weight"] = torch.randn(rows, cols, generator=generator) / cols**0.5
        if bias:
            weights[f"{name}.bias"] = 0.3 * torch.randn(rows, generator=generator)

    def norm(name, size):
        weights[f"{name}.weight"] = 1 + 0.2 * torch.randn(size, generator=generator)

    matrix("model.embed_tokens", VOCABULARY, width)
    if not config["tie_word_embeddings"]:
        matrix("lm_head", VOCABULARY, width)
    norm("model.norm", width)
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        norm(f"{layer}.input_layernorm", width)
        norm(f"{layer}.post_attention_layernorm", width)
        for name, rows in (("q", queries), ("k", keys), ("v", keys)):
            matrix(f"{layer}.self_attn.{name}_proj", rows, width, qkv_bias)
        matrix(f"{layer}.self_attn.o_proj", width, queries, config.get("attention_bias", False))
        if config["model_type"] == "qwen3":
            norm(f"{layer}.self_attn.q_norm", head)
            norm(f"{layer}.self_attn.k_norm", head)
        for name, rows, cols in (("gate", mlp, width), ("up", mlp, width), ("down", width, mlp)):
            matrix(f"{layer}.mlp.{name}_proj", rows, cols, config.get("mlp_bias", False))
    return {name: weight.bfloat16() for name, weight in weights.items()}
