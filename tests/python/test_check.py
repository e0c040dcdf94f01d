"""coda_cpp.check: the rows, their words, and that the model stays as it is."""

import copy
import io
import math

import pytest
import rich.console
import torch
import transformers

import coda_cpp as coda
from coda_cpp import checking
from patched import VOCABULARY, draw_batch, make_model

NAMES = ["hidden, layer 0", "hidden, layer 1", "loss", "gradient, embed_tokens", "gradient, layer 0", "gradient, layer 1",
         "gradient, norm", "gradient, lm_head"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("is_patched", [False, True])
def test_rows_of_a_model(is_patched, dtype):
    model = make_model().to(dtype)
    before = copy.deepcopy(model.state_dict())
    if is_patched:
        coda.patch(model)
    found = coda.check(model, torch.randint(VOCABULARY, (2, 19)))
    assert [row.name for row in found.rows] == NAMES
    for row in found.rows:
        assert 0 <= row.ours < 0.1 and 0 <= row.stock < 0.1
        if row.name != "loss":  # one number may be right by chance
            assert row.ratio <= 2, row
    assert found.report.replaced and found.worst in found.rows
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert ("forward" in model.__dict__) == is_patched


def test_what_a_tokenizer_gives_and_modes_of_torch():
    """A mapping that is no dict, tokens of int32, no grad mode, a batch that asks for tuples."""
    tokens = torch.randint(VOCABULARY, (2, 19), dtype=torch.int32)
    with torch.no_grad():
        found = coda.check(make_model(), transformers.BatchEncoding({"input_ids": tokens, "return_dict": False}))
    assert [row.name for row in found.rows] == NAMES and found.worst.ours < 1e-4


def test_tables():
    found = coda.check(make_model("qwen3"), draw_batch(padded=True), policy="lean")
    lines = str(found).splitlines()
    assert lines[0].split() == ["against", "fp64", "ours", "stock", "ratio"] and len(lines) == 1 + len(found.rows)
    assert [line[:20].strip() for line in lines[1:]] == [row.name[:20].strip() for row in found.rows]
    shown = io.StringIO()
    rich.console.Console(width=100, file=shown).print(found)
    assert all(row.name in shown.getvalue() and f"{row.ours:.2e}" in shown.getvalue() for row in found.rows)


def test_gradients_that_are_exactly_zero():
    """Behind a head of zeros nothing is reached: 0 ÷ 0 is no error."""
    model = make_model()
    torch.nn.init.zeros_(model.lm_head.weight)
    rows = {row.name: row for row in coda.check(model, draw_batch()).rows}
    for name in ("gradient, embed_tokens", "gradient, layer 0", "gradient, layer 1", "gradient, norm"):
        assert rows[name] == (name, 0, 0) and rows[name].ratio == 1
    assert 0 < rows["gradient, lm_head"].ours < 1e-5


def test_errors_relative_to_zero():
    zeros, ones = torch.zeros(3), torch.ones(3)
    exact = [zeros.double(), zeros.double()]
    assert checking.relative_error([zeros, zeros], exact) == 0
    assert checking.relative_error([zeros, ones], exact) == math.inf
    assert math.isnan(checking.relative_error([zeros, ones * math.nan], exact))
    assert checking.relative_error([ones, zeros], [2 * ones.double(), zeros.double()]) == 0.5


@pytest.mark.parametrize("ours, stock, ratio", [(0, 0, 1), (math.inf, math.inf, 1), (1, 0, math.inf), (math.inf, 1, math.inf),
                                                (1, math.inf, 0), (3, 2, 1.5)])
def test_ratio(ours, stock, ratio):
    assert checking.Row("x", ours, stock).ratio == ratio


def test_nan_is_the_worst():
    rows = [checking.Row("a", 5, 1), checking.Row("b", math.nan, 1), checking.Row("c", math.inf, 1)]
    assert checking.Check(rows, None).worst.name == "b"


def test_refusals():
    with pytest.raises(TypeError) as caught:
        coda.check(3, torch.zeros(1, 4, dtype=torch.int64))
    assert str(caught.value) == "check: argument 'model' is a int, expected a torch.nn.Module"
    with pytest.raises(TypeError) as caught:
        coda.check(make_model(), [1, 2])
    assert str(caught.value) == ("check: argument 'batch' is a list, expected a tensor of tokens (B, L) or a dict with "
                                 "'input_ids'")
    tokens = torch.zeros(1, 4, dtype=torch.int64)
    for kind, model, batch, text in (
        (TypeError, make_model(), tokens.float(), "check: 'input_ids' of argument 'batch' is torch.float32, expected a tensor "
                                                  "of torch.int64 or torch.int32"),
        (TypeError, make_model(), {"input_ids": [[1]]}, "check: 'input_ids' of argument 'batch' is a list, expected a tensor "
                                                        "of torch.int64 or torch.int32"),
        (ValueError, make_model(), tokens[0],
         "check: 'input_ids' of argument 'batch' has shape [4], expected (B, L), both above 0"),
        (ValueError, make_model().model, tokens, "check: LlamaModel gives no loss, expected a training step: pass a model with "
                                                 "a loss, labels and parameters that require grad"),
        (ValueError, make_model().requires_grad_(False), tokens, "check: LlamaForCausalLM gives a loss without gradient, "
         "expected a training step: pass a model with a loss, labels and parameters that require grad"),
        (NotImplementedError, make_model(), {"input_ids": tokens, "output_hidden_states": True},
         "check: the call is left to the stock forward: output_hidden_states is asked for")):
        with pytest.raises(kind) as caught:
            coda.check(model, batch)
        assert str(caught.value) == text
    with pytest.raises(NotImplementedError) as caught:
        coda.check(make_model(attention_dropout=0.5), torch.zeros(1, 4, dtype=torch.int64))
    assert str(caught.value) == ("patch: nothing is replaced: model attention_dropout is 0.5, expected 0: dropout is left to "
                                 "the stock model")
