"""A small LLaMA of random weights trained by torch's AdamW on gradients of coda: the weights are torch's own memory."""

import torch

import coda_cpp as coda

VOCABULARY, D, F, HEADS, LAYERS = 64, 64, 96, 4, 2
CONFIG = {"architectures": ["LlamaForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": D, "intermediate_size": F,
          "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "tie_word_embeddings": True}


def draw(rows, columns):
    return torch.nn.Parameter(torch.randn(rows, columns) * columns**-0.5)


def layer_parameters(prefix):
    shapes = {"self_attn.q_proj": (D, D), "self_attn.k_proj": (D, D), "self_attn.v_proj": (D, D),
              "self_attn.o_proj": (D, D), "mlp.gate_proj": (F, D), "mlp.up_proj": (F, D), "mlp.down_proj": (D, F)}
    layer = {f"{prefix}.{name}.weight": draw(*shape) for name, shape in shapes.items()}
    for name in ("input_layernorm", "post_attention_layernorm"):
        layer[f"{prefix}.{name}.weight"] = torch.nn.Parameter(torch.ones(D))
    return layer


parameters = {"model.embed_tokens.weight": draw(VOCABULARY, D), "model.norm.weight": torch.nn.Parameter(torch.ones(D))}
for i in range(LAYERS):
    parameters |= layer_parameters(f"model.layers.{i}")

model = coda.LlamaModel(CONFIG, {name: p.detach() for name, p in parameters.items()}, share=True)
optimizer = torch.optim.AdamW(parameters.values(), lr=3e-3)

# Each sequence counts up from where it starts: the next token is the last plus one.
tokens = (torch.randint(VOCABULARY, (8, 1)) + torch.arange(33)) % VOCABULARY
losses = []
for step in range(30):
    loss, gradients = model.loss_and_gradients(tokens[:, :-1], tokens[:, 1:], policy="lean")
    for name, gradient in gradients.items():
        parameters[name].grad = gradient
    optimizer.step()
    losses.append(loss.value)
print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} after {len(losses)} steps")
