"""What the tests of patched models share: small models of each kind, a training step, and the rule for errors."""

import copy

import torch

from coda_cpp.demo.fine_tune import WARMUP
from stock_llama import random_llama

VOCABULARY, SEQUENCES, LENGTH = 97, 3, 23

KINDS = {
    "llama": {},
    "tied": {"tie_word_embeddings": True},
    "bias": {"attention_bias": True, "mlp_bias": True},
    "gelu": {"hidden_act": "gelu_pytorch_tanh", "head_dim": 32},
    "llama3": {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                                   "high_freq_factor": 4.0, "original_max_position_embeddings": 16}},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}},
    "dynamic": {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}, "max_position_embeddings": 16},
    "mistral": {"family": "Mistral", "sliding_window": None},
    "mistral_window": {"family": "Mistral", "sliding_window": 7},
    "qwen2": {"family": "Qwen2"},
    "qwen2_window": {"family": "Qwen2", "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    "qwen3": {"family": "Qwen3", "head_dim": 24, "tie_word_embeddings": True},
}
#: Half a unit in the last place, relative.
ROUNDING = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def make_model(kind="llama", **options):
    """A stock model in training mode."""
    return random_llama(vocab_size=VOCABULARY, **(KINDS[kind] | options)).train()


def draw_batch(padded=False, device="cpu"):
    """Tokens and labels, some of them ignored; with `padded`, a mask of sequences of several lengths, padded on both sides."""
    tokens = torch.randint(VOCABULARY, (SEQUENCES, LENGTH))
    batch = {"input_ids": tokens, "labels": tokens.where(torch.arange(LENGTH) % 5 != 0, -100)}
    if padded:
        mask = torch.ones_like(tokens)
        mask[0, 15:], mask[1, :5] = 0, 0
        batch |= {"attention_mask": mask, "labels": batch["labels"].where(mask == 1, -100)}
    return {name: tensor.to(device) for name, tensor in batch.items()}


def step(model, batch, **options):
    """The loss and {name: gradient}."""
    model.zero_grad()
    loss = model(**batch, **options).loss
    loss.backward()
    # torch.compile gives names a first word.
    return loss.detach(), {name.removeprefix("_orig_mod."): p.grad.clone() for name, p in model.named_parameters()
                           if p.grad is not None}


def gradients_equal(ours, theirs):
    """Whether two steps gave the same bits."""
    return torch.equal(ours[0], theirs[0]) and ours[1].keys() == theirs[1].keys() and all(
        torch.equal(gradient, theirs[1][name]) for name, gradient in ours[1].items())


def exact_step(model, batch, **options):
    """step of a stock copy in fp64."""
    return step(copy.deepcopy(model).double(), batch, **options)


def train(model, batches):
    """The losses of steps of AdamW, whose rate grows as the demo's: at a full one a first gradient that is rounding alone, of
    either sign, moves its entry by a whole step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARMUP))
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        warmup.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def rms(tensor):
    return tensor.double().square().mean().sqrt().item()


def expect_no_worse(ours, stock, exact, dtype):
    """Each of ours is at most twice as far from fp64 as stock's, but for a rounding of its own."""
    assert ours.keys() == stock.keys() == exact.keys()
    for name, truth in exact.items():
        truth = truth.to(ours[name].device)
        got, theirs = (rms(value.double() - truth) for value in (ours[name], stock[name]))
        # Keys of all tokens moved alike change no softmax but for their rotation: terms of the size of k's cancel.
        scale = rms(exact[name.replace("k_proj.bias", "k_proj.weight")])
        assert got <= 2 * theirs + 2 * ROUNDING[dtype] * scale, f"{name}: {got:.3e}, stock {theirs:.3e}"
