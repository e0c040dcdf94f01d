"""What the tests of patched models share: small models of each kind, a training step, and the rule for errors."""

import collections
import re

import torch

from coda_cpp import fp64
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


def with_main_gradients(model):
    """The model, each of whose parameters has a main gradient of zeros."""
    for parameter in model.parameters():
        parameter.main_grad = torch.zeros_like(parameter, dtype=torch.float32)
    return model


def main_gradients(model):
    """{name: main_grad}"""
    return {name: parameter.main_grad for name, parameter in model.named_parameters()}


def gradients_equal(ours, theirs):
    """Whether two steps gave the same bits."""
    return torch.equal(ours[0], theirs[0]) and ours[1].keys() == theirs[1].keys() and all(
        torch.equal(gradient, theirs[1][name]) for name, gradient in ours[1].items())


def exact_step(model, batch, **options):
    """step of a stock copy in fp64."""
    with fp64.copy_of(model) as exact:
        return step(exact, batch, **options)


def token_losses(model, batch):
    """The losses of a stock model's tokens that count."""
    labels = batch["labels"][:, 1:].flatten()
    logits = model(**{name: value for name, value in batch.items() if name != "labels"}).logits[:, :-1].flatten(0, 1)
    losses = torch.nn.functional.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), labels,
                                               reduction="none")
    return losses[labels != -100].double()


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


FEW = 256  # numbers whose root mean square says little by chance


def _pooled(tensors):
    """{names: tensors}: those of few numbers together with their like in other layers."""
    pools = collections.defaultdict(list)
    for name, tensor in tensors.items():
        pools[re.sub(r"\.\d+\.", ".*.", name) if tensor.numel() < FEW else name].append(name)
    return pools


def expect_no_worse(ours, stock, exact, dtype):
    """Each of ours is at most twice as far from fp64 as stock's, but for a rounding of its own."""
    assert ours.keys() == stock.keys() == exact.keys()
    device = next(iter(ours.values())).device

    def whole(tensors, names):
        return torch.cat([tensors[name].to(device).double().flatten() for name in names])

    for pool, names in _pooled(exact).items():
        truth = whole(exact, names)
        got, theirs = (rms(whole(tensors, names) - truth) for tensors in (ours, stock))
        # Keys of all tokens moved alike change no softmax but for their rotation: terms of the size of k's cancel.
        scale = rms(whole(exact, [name.replace("k_proj.bias", "k_proj.weight") for name in names]))
        assert got <= 2 * theirs + 2 * ROUNDING[dtype] * scale, f"{pool}: {got:.3e}, stock {theirs:.3e}"


@torch.no_grad()
def expect_loss_no_worse(loss, stock, batch):
    """One number may be right by chance: a mean of ours is at most twice as far from fp64 as the stock model's tokens are."""
    with fp64.copy_of(stock) as exact:
        truth = token_losses(exact, batch)
    allowed = 2 * rms(token_losses(stock, batch) - truth) + ROUNDING[loss.dtype] * truth.mean()
    assert abs(loss.double() - truth.mean()) <= allowed
