"""The real SmolLM2-135M, patched, in fp32: 20 steps of AdamW beside stock; checkpoints; one graph of torch.compile."""

import copy

import pytest
import torch

import coda_cpp as coda
from coda_cpp.demo.trained import DRIFT_LIMIT, LOSS_LIMIT
from patched import gradients_equal, step


def batch_of(tokens, targets):
    return {"input_ids": tokens, "labels": targets, "shift_labels": targets, "use_cache": False}


def test_20_steps_beside_stock(stock_smollm2):
    reports = []

    def gradients_of(model):
        reports.append(coda.patch(model.train(), strict=True))
        return lambda *piece: step(model, batch_of(*piece))[0].item()

    assert stock_smollm2.failures_of(gradients_of) == []
    assert not reports[0].calls_left_stock


@pytest.fixture(scope="module")
def model(stock_smollm2):
    model = copy.deepcopy(stock_smollm2.loaded.model).train()
    coda.patch(model, strict=True)
    return model


@pytest.fixture(scope="module")
def batch(stock_smollm2):
    return batch_of(*stock_smollm2.pieces[0])


@pytest.fixture(scope="module")
def eager(model, batch):
    return step(model, batch)


def test_checkpoints_change_no_bit(model, batch, eager):
    model.gradient_checkpointing_enable()
    try:
        assert gradients_equal(step(model, batch), eager)
    finally:
        model.gradient_checkpointing_disable()


def test_one_graph_of_all_layers(model, batch, eager):
    loss, gradients = step(torch.compile(model, fullgraph=True), batch)
    torch.testing.assert_close(loss, eager[0], rtol=LOSS_LIMIT, atol=0)
    assert gradients.keys() == eager[1].keys()
    for name, gradient in gradients.items():
        assert (gradient - eager[1][name]).norm() <= DRIFT_LIMIT * eager[1][name].norm(), name
