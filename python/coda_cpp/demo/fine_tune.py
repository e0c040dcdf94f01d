"""Both sides fine-tune the model on the text: the same weights, batches and optimizer, in fp32 on the CPU."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator

import torch

from . import coda_side, machine, stock
from .compare import Result, quotient
from .loader import Loaded
from .paired import time_rounds
from .stages import Stages
from .trained import Drift, Training

SEQUENCES, LENGTH = 2, 128  # of a batch
# Steps over which the learning rate grows to its own. Adam's first step is as long for a gradient that is rounding alone
# as for any other, and only the mean of several tells them apart.
WARMUP = 5
OPTIMIZER = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "fused": True}

# fp32 tensors of the size of the model, held at once: the start, and each side's weights, gradients and two moments.
_COPIES = 1 + 2 * 4


def train(result: Result, loaded: Loaded, ids: torch.Tensor, steps: int, stages: Stages) -> None:
    """Fine-tunes, or leaves the reason why not in the result: one stage either way."""
    result.untrained = refusal(loaded) or ""
    if result.untrained:
        with stages.stage(result.untrained):
            return
    result.training = fine_tune(loaded, ids, steps, stages)


def refusal(loaded: Loaded) -> str | None:
    """Why the model is not trained here, or None."""
    needed = _COPIES * sum(parameter.numel() * 4 for parameter in loaded.model.parameters())
    free = machine.free_memory()
    if free is None or needed <= free:
        return None
    return (
        f"training is left out: it needs about {needed / 1e9:.0f} GB of memory for both sides, and {free / 1e9:.0f} GB "
        "are free"
    )


def batches(ids: torch.Tensor, longest: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tokens and targets (sequences, length), piece after piece of the text until its end."""
    length = min(LENGTH, longest, (len(ids) - 1) // SEQUENCES)
    size = SEQUENCES * length
    return [
        tuple(ids[start + shift : start + shift + size].reshape(SEQUENCES, length) for shift in (0, 1))
        for start in range(0, len(ids) - size, size)
    ]


def fine_tune(loaded: Loaded, ids: torch.Tensor, steps: int, stages: Stages) -> Training:
    """Trains a copy of the model on each side, one stage; `loaded` stays as it is. A round is a step of both, so the
    times that are compared are neighbours."""
    pieces = batches(ids, loaded.model.config.max_position_embeddings)
    with stages.stage(f"{steps} training steps of both, fp32", steps) as tick:
        models = {side: copy.deepcopy(loaded.model) for side in ("stock", "coda")}
        gradients = {
            "stock": stock.gradients_of(models["stock"]),
            "coda": coda_side.gradients_of(loaded, models["coda"]),
        }
        losses: dict[str, list[float]] = {side: [] for side in models}
        entries = {
            side: stepper(model, gradients[side], pieces, losses[side]) for side, model in models.items()
        }
        speed = time_rounds(entries, baseline="stock", rounds=steps, warmup=0, on_round=tick)
        found = drifts(loaded.model, models["stock"], models["coda"])
    return Training(losses, found, speed, tuple(pieces[0][0].shape))


def farthest_first(drifts: Iterable[Drift]) -> list[Drift]:
    """NaN is farther than anything."""
    return sorted(drifts, key=lambda drift: (math.isnan(drift.apart), drift.apart), reverse=True)


def stepper(model, gradients: Callable, pieces: list, losses: list[float]) -> Callable[[], None]:
    """One step of AdamW with each call, on the next batch: `gradients` of it leaves them in the parameters and gives the
    loss, which is added to `losses`."""
    optimizer = torch.optim.AdamW(model.parameters(), **OPTIMIZER)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARMUP))

    def step() -> None:
        losses.append(gradients(*pieces[len(losses) % len(pieces)]))
        optimizer.step()
        warmup.step()

    return step


def drifts(start, reference, model) -> list[Drift]:
    """Of each tensor of `model` from that of `reference`, which began as `start`; the farthest first."""
    return farthest_first(_drifts(start, reference, model))


@torch.no_grad()
def _drifts(start, reference, model) -> Iterator[Drift]:
    for (name, old), theirs, ours in zip(
        start.named_parameters(), reference.parameters(), model.parameters(), strict=True
    ):
        moved = float((theirs.double() - old.double()).norm())
        apart = float((ours.double() - theirs.double()).norm())
        yield Drift(name, moved, quotient(apart, moved) if apart else 0.0)
