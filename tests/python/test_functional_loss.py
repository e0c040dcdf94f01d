"""Cross entropy of a linear layer: chunks, ignored targets, half precision, and what its backward may be asked for."""

import pytest
import torch
import torch.nn.functional as F

from coda_cpp import functional as CF
from coda_cpp._torch.chunks import chunk_of
from functional_cases import CASES, D, VOCABULARY, compare, doubled, expect_no_worse

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
CHUNK = 64  # of a weight of D columns
ROWS = {1: CHUNK, 2: CHUNK + 1, 3: 2 * CHUNK + 1}


def draw(generator, rows, dtype=torch.float32, name="linear_cross_entropy"):
    """Leaves of a case, and targets every seventh of which is ignored."""
    t, i = CASES[name].draw((rows,), generator, dtype)
    i["targets"][::7] = -100
    return t, i


@pytest.mark.parametrize("width, expected", [(0, 64), (1, 64), (64, 64), (65, 128), (2048, 2048)])
def test_logits_of_a_chunk_are_as_large_as_the_weight(width, expected):
    assert chunk_of(torch.empty(5, width)) == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chunks", ROWS)
@pytest.mark.parametrize("name", [name for name in CASES if "cross_entropy" in name])
def test_chunks_with_ignored_targets(generator, name, chunks, dtype):
    t, i = draw(generator, ROWS[chunks], DTYPES[dtype], name)
    compare(CASES[name], t, i, torch.tensor(2.0), DTYPES[dtype])


@pytest.mark.parametrize("dtype, last", [("f32", "accumulated"), ("bf16", "residual"), ("f16", "accumulated")])
def test_the_first_product_writes_and_the_last_converts(generator, products, dtype, last):
    """bf16 gets its dtype from the last product; f16 stays in f32 until it is scaled."""
    expected = {1: ["identity"], 2: ["identity", last], 3: ["identity", "accumulated", last]}
    for chunks, rows in ROWS.items():
        t, i = draw(generator, rows, DTYPES[dtype])
        t["x"].requires_grad_(False)
        seen = products.of(lambda: CASES["linear_cross_entropy"].ours(t, i))
        assert [name for name in seen if name != "lse"] == expected[chunks]


@pytest.mark.parametrize("frozen, expected", [((), 3), (("x",), 2), (("w",), 2), (("x", "w"), 1)], ids=str)
def test_what_is_frozen_costs_no_product(generator, products, frozen, expected):
    for chunks, rows in ROWS.items():
        t, i = draw(generator, rows)
        for name in frozen:
            t[name].requires_grad_(False)
        assert len(products.of(lambda: CASES["linear_cross_entropy"].ours(t, i))) == chunks * expected


def test_a_tied_weight_has_both_gradients(generator):
    tokens, targets = (torch.randint(0, VOCABULARY, (CHUNK + 1,), generator=generator) for _ in range(2))
    w = torch.randn(VOCABULARY, D, generator=generator, requires_grad=True)
    ours = CF.linear_cross_entropy(F.embedding(tokens, w), w, targets)
    theirs = F.cross_entropy(F.linear(F.embedding(tokens, w), w), targets)
    torch.testing.assert_close(*(torch.autograd.grad(loss, w)[0] for loss in (ours, theirs)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [0, 5, CHUNK + 1])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_where_no_target_counts(generator, reduction, rows):
    """As PyTorch: the mean is 0/0, and gradients are 0."""
    t, _ = draw(generator, rows)
    targets = torch.full((rows,), -100)
    ours = CF.linear_cross_entropy(t["x"], t["w"], targets, reduction=reduction)
    theirs = F.cross_entropy(F.linear(t["x"], t["w"]), targets, reduction=reduction)
    assert torch.equal(ours.isnan(), theirs.isnan()) and (reduction == "mean") == bool(ours.isnan())
    for mine, truth in zip(*(torch.autograd.grad(loss, list(t.values())) for loss in (ours, theirs))):
        assert torch.equal(mine, truth) and not truth.any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_second_backward_gives_the_same(generator, dtype):
    t, i = draw(generator, CHUNK + 1, DTYPES[dtype])
    loss = CASES["linear_cross_entropy"].ours(t, i)
    first, second = (torch.autograd.grad(loss, list(t.values()), retain_graph=keeps) for keeps in (True, False))
    assert all(torch.equal(mine, again) for mine, again in zip(first, second))


def test_main_gradients_of_graphs_that_overlap(generator):
    """A second backward of one graph, and backwards behind the forwards of several, all add up."""
    t, i = draw(generator, 7)
    t["w"].main_grad = torch.zeros_like(t["w"])
    expected, = torch.autograd.grad(CASES["linear_cross_entropy"].ours(t, i), t["w"])
    first, second = (CF.linear_cross_entropy(t["x"], t["w"], i["targets"], main_grad=True) for _ in range(2))
    first.backward(retain_graph=True)
    first.backward()
    second.backward()
    torch.testing.assert_close(t["w"].main_grad, 3 * expected)


def test_the_scale_is_not_rounded(generator):
    """A mean over three is a third of the sum, rounded once more; a third in bfloat16 would be 0.2 % off everywhere."""
    t, _ = CASES["linear_cross_entropy"].draw((3,), generator, torch.bfloat16)
    mean, total = (torch.autograd.grad(CF.linear_cross_entropy(t["x"], t["w"], torch.arange(3), reduction=reduction),
                                       list(t.values())) for reduction in ("mean", "sum"))
    third = torch.tensor(1.0) / 3
    assert all(torch.equal(mine, (summed.float() * third).bfloat16()) for mine, summed in zip(mean, total))


def test_a_mean_over_many_tokens_in_f16(generator):
    """Gradients by logits of 1/4096 are below what f16 holds, and their sum over tokens is above: neither is made."""
    t, _ = CASES["linear_cross_entropy"].draw((4096,), generator)
    targets, scale = torch.zeros(4096, dtype=torch.int64), 16.0
    narrow = {"x": 300 + 30 * t["x"].detach(), "w": t["w"].detach() / 400}
    narrow = {name: tensor.half().requires_grad_() for name, tensor in narrow.items()}
    wide = doubled(narrow)
    losses = {"ours": lambda t: CF.linear_cross_entropy(t["x"], t["w"], targets),
              "theirs": lambda t: F.cross_entropy(F.linear(t["x"], t["w"]).float(), targets),
              "exact": lambda t: F.cross_entropy(F.linear(t["x"], t["w"]), targets)}
    found = {}
    for name, loss in losses.items():
        leaves = wide if name == "exact" else narrow
        found[name] = dict(zip(leaves, torch.autograd.grad(loss(leaves) * scale, list(leaves.values()))))
    assert (found["exact"]["w"] / scale * 4096).abs().max() > torch.finfo(torch.float16).max
    assert all(gradient.dtype == torch.float16 for gradient in found["ours"].values())
    expect_no_worse(*found.values(), torch.float16)


def test_the_loss_of_each_token(generator):
    t, i = CASES["linear_cross_entropy"].draw((3, 7), generator)
    losses, lse = CF.linear_cross_entropy_forward(t["x"], t["w"], i["targets"])
    logits = t["x"].double() @ t["w"].double().T
    expected = F.cross_entropy(logits.flatten(0, 1), i["targets"].flatten(), reduction="none")
    torch.testing.assert_close(losses, expected.view(3, 7).float().detach())
    torch.testing.assert_close(lse, logits.logsumexp(-1).float().detach())
    assert losses.dtype == torch.float32 and not losses.requires_grad and losses[0, 1] == 0
