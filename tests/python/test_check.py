"""coda_cpp.check: the rows, their words, and that the model stays as it is."""

import copy
import io

import pytest
import rich.console
import torch

import coda_cpp as coda
from patched import VOCABULARY, draw_batch, make_model

NAMES = ["hidden, layer 0", "hidden, layer 1", "loss", "gradient, embed_tokens", "gradient, layer 0", "gradient, layer 1",
         "gradient, norm", "gradient, lm_head"]


@pytest.mark.parametrize("is_patched", [False, True])
def test_rows_of_a_model(is_patched):
    model = make_model().bfloat16()
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


def test_tables():
    found = coda.check(make_model("qwen3"), draw_batch(padded=True), policy="lean")
    lines = str(found).splitlines()
    assert lines[0].split() == ["against", "fp64", "ours", "stock", "ratio"] and len(lines) == 1 + len(found.rows)
    assert [line[:20].strip() for line in lines[1:]] == [row.name[:20].strip() for row in found.rows]
    shown = io.StringIO()
    rich.console.Console(width=100, file=shown).print(found)
    assert all(row.name in shown.getvalue() and f"{row.ours:.2e}" in shown.getvalue() for row in found.rows)


def test_refusals():
    with pytest.raises(TypeError) as caught:
        coda.check(3, torch.zeros(1, 4, dtype=torch.int64))
    assert str(caught.value) == "check: argument 'model' is a int, expected a torch.nn.Module"
    with pytest.raises(TypeError) as caught:
        coda.check(make_model(), [1, 2])
    assert str(caught.value) == ("check: argument 'batch' is a list, expected a tensor of tokens (B, L) or a dict with "
                                 "'input_ids'")
    with pytest.raises(NotImplementedError) as caught:
        coda.check(make_model(attention_dropout=0.5), torch.zeros(1, 4, dtype=torch.int64))
    assert str(caught.value) == ("patch: nothing is replaced: model attention_dropout is 0.5, expected 0: dropout is left to the "
                                 "stock model")
