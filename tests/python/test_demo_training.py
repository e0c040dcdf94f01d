"""The demo's training: both sides keep step on a small random model, and what does not is reported."""

import math

import pytest
import torch
from rich.console import Console

from coda_cpp.demo import coda_side, compare, fine_tune, loader, machine, paired, report, stages, tables, trained
from stock_llama import random_llama

STEPS = 20


def quiet():
    return stages.Stages(Console(quiet=True), 1)


@pytest.fixture(scope="module")
def loaded():
    model = random_llama(vocab_size=97, max_position_embeddings=32, tie_word_embeddings=True)
    return loader.Loaded("mini", model, None, None)


@pytest.fixture(scope="module")
def ids():
    return torch.randint(97, (4 * 64 + 1,))


def test_both_sides_keep_step_and_the_model_stays(loaded, ids):
    before = {name: weight.clone() for name, weight in loaded.model.state_dict().items()}
    with quiet() as shown:
        found = fine_tune.fine_tune(loaded, ids, STEPS, shown)
    assert found.failures() == []
    assert found.steps == STEPS and found.batch == (2, 32)
    assert len(found.drifts) == len(list(loaded.model.parameters())) and min(d.moved for d in found.drifts) > 0
    first, last = (sum(found.losses["coda"][at]) for at in (slice(0, 4), slice(-4, None)))
    assert last < first
    assert all(torch.equal(weight, before[name]) for name, weight in loaded.model.state_dict().items())


def test_a_wrong_gradient_fails(loaded, ids, monkeypatch):
    name = "model.layers.1.mlp.up_proj.weight"
    right = coda_side.gradients_of

    def wrong(loaded, model):
        run = right(loaded, model)

        def negated(*batch):
            loss = run(*batch)
            model.get_parameter(name).grad.neg_()
            return loss

        return negated

    monkeypatch.setattr(coda_side, "gradients_of", wrong)
    with quiet() as shown:
        result = compare.Result("mini", {}, training=fine_tune.fine_tune(loaded, ids, STEPS, shown))
    lines = tables.verdict(result)
    assert result.training.drifts[0].tensor == name
    assert lines[0].startswith("FAILED: training step ")
    assert any(line.startswith(f"FAILED: after training {name} is ") for line in lines)


def made_training(loss=2.9, apart=1e-3):
    timing = paired.Timing(0.5, 1.0, 0.9, 1.1, 2)
    drifts = [trained.Drift("model.<norm>.weight", 0.1, apart), trained.Drift("model.embed", 0.1, 1e-4)]
    return trained.Training({"stock": [3.0, 2.9], "coda": [3.0, loss]}, drifts, {"stock": timing, "coda": timing}, (2, 8))


@pytest.mark.parametrize(("loss", "said"), [(2.90006, "2.9000600"), (math.nan, "nan")])
def test_a_loss_beyond_its_limit_fails(loss, said):
    [line] = made_training(loss=loss).failures()
    assert line.startswith(f"training step 2: coda's loss is {said}, stock's 2.9000000: they differ by ")


@pytest.mark.parametrize("apart", [1.1e-2, math.nan, math.inf])
def test_a_tensor_beyond_its_limit_fails(apart):
    assert made_training(apart=apart).failures() == [
        f"after training model.<norm>.weight is {apart:.1e} of its way apart from stock's, more than 1e-02"]


def test_tensors_come_farthest_first():
    order = [math.nan, math.inf, 2.0, 1.0, 0.0]
    given = [trained.Drift(str(apart), 1.0, apart) for apart in (1.0, math.nan, 0.0, math.inf, 2.0)]
    assert [drift.tensor for drift in fine_tune.farthest_first(given)] == [str(apart) for apart in order]


def test_what_holds_is_said_and_shown():
    result = compare.Result("Model", {}, [], training=made_training())
    assert made_training().failures() == []
    assert tables.training_held(result.training) == [
        "passed: the losses of 2 training steps differ by at most 0.0e+00 relative (limit 2e-05)",
        "passed: each tensor ends at most 1.0e-03 of its way apart from stock's (limit 1e-02)"]
    page = "".join(report.training(result))
    for part in ("data:image/svg+xml;base64,", "model.&lt;norm&gt;.weight", "<td>2.900000</td>", "<td>32</td>"):
        assert part in page


def test_batches_are_pieces_of_the_text_and_the_next_tokens():
    pieces = fine_tune.batches(torch.arange(4 * 128 + 1), longest=64)
    assert len(pieces) == 4 and len(fine_tune.batches(torch.arange(4 * 128), longest=64)) == 3
    for number, (tokens, targets) in enumerate(pieces):
        assert torch.equal(tokens.flatten(), torch.arange(number * 128, number * 128 + 128))
        assert torch.equal(targets, tokens + 1) and tokens.shape == (2, 64)


def test_a_model_too_large_is_left_out_with_a_reason(loaded, ids, monkeypatch):
    monkeypatch.setattr(machine, "free_memory", lambda: 10**6)
    result = compare.Result("mini", {})
    with quiet() as shown:
        fine_tune.train(result, loaded, ids, STEPS, shown)
    assert result.training is None and result.failures() == []
    assert result.untrained.startswith("training is left out: it needs about ")
    assert "Training is left out" in "".join(report.training(result))


def test_smollm2_keeps_step(stock_smollm2):
    assert stock_smollm2.failures_of(lambda model: coda_side.gradients_of(stock_smollm2.loaded, model)) == []
