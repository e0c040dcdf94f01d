"""A LLaMA model: logits, loss and a continuation.

python examples/04_llama.py FOLDER "Once upon a time"   a Hugging Face folder with config.json and safetensors
python examples/04_llama.py                             a small random model
"""

import sys

import numpy as np

import coda_cpp as coda

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 100, "hidden_size": 64,
          "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True}


def random_model():
    rng = np.random.default_rng()
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32) / 8
    tensors = {"model.embed_tokens.weight": draw(100, 64), "model.norm.weight": draw(64) + 1}
    for layer in ("model.layers.0.", "model.layers.1."):
        tensors |= {layer + "input_layernorm.weight": draw(64) + 1, layer + "post_attention_layernorm.weight": draw(64) + 1}
        rows = {"self_attn.q_proj": 64, "self_attn.k_proj": 32, "self_attn.v_proj": 32, "self_attn.o_proj": 64,
                "mlp.gate_proj": 128, "mlp.up_proj": 128}
        tensors |= {f"{layer}{name}.weight": draw(out, 64) for name, out in rows.items()}
        tensors[layer + "mlp.down_proj.weight"] = draw(64, 128)
    return coda.LlamaModel(CONFIG, tensors)


if len(sys.argv) > 2:
    from transformers import AutoTokenizer

    folder, prompt = sys.argv[1:3]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), coda.LlamaModel.load(folder)
    model.generate(tokenizer.encode(prompt), 50, lambda token: print(tokenizer.decode([token]), end="", flush=True))
    print()
else:
    model, tokens = random_model(), [3, 14, 15, 92, 65, 35]
    print("logits", model.logits(tokens).shape)
    print("loss", round(float(model.loss(tokens[:-1], tokens[1:])), 3))
    print("continuation", model.generate(tokens, 10))
