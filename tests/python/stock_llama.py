"""Small stock models of the families coda runs, with random weights."""

import os

import torch
import transformers


def random_llama(factor=4, family="Llama", **options):
    """The stock model, in evaluation mode; `options` as the family's config takes them. Prints the seed.

    factor: of the matrices, which are drawn so small that layers hardly differ from nothing.
    """
    sizes = {"hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "max_position_embeddings": 256, "tie_word_embeddings": False}
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    torch.manual_seed(seed)
    config = getattr(transformers, f"{family}Config")(**(sizes | options))
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases start as ones and zeros
            parameter.add_(0.1 * torch.randn_like(parameter)) if parameter.dim() == 1 else parameter.mul_(factor)
    return model
