"""A rotary embedding given by its base: the frequencies are right to one rounding, and kept safely."""

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from coda_cpp import functional as CF
from functional_cases import HEAD


def turn(x, rope):
    """A head, normed and turned."""
    return CF.linear_qknorm_rope(x, torch.eye(HEAD, device=x.device), None, rope=rope)


def exact(base, width):
    """Frequencies in double, rounded once."""
    return torch.tensor([math.pow(base, -2 * p / width) for p in range(width // 2)], dtype=torch.float32)


@pytest.mark.parametrize("options", [{}, {"width": 16}, {"interleaved": True, "scale": 0.5}], ids=str)
@pytest.mark.parametrize("base", [1e4, 5e5, 0.5])
def test_frequencies_of_a_base_are_rounded_once(generator, base, options):
    x, positions = torch.randn(7, HEAD, generator=generator), torch.randint(0, 100_000, (7,), generator=generator)
    given = CF.Rope(HEAD, positions, frequencies=exact(base, options.get("width", HEAD)), **options)
    assert torch.equal(turn(x, CF.Rope(HEAD, positions, base=base, **options)), turn(x, given))


def test_each_base_has_its_own_in_a_graph(generator):
    """Also where a base comes as an argument, in graphs of any length."""
    work = torch.compile(lambda x, positions, base: turn(x, CF.Rope(HEAD, positions, base=base)), fullgraph=True,
                         backend="aot_eager", dynamic=True)
    for base, tokens in ((1e4, 5), (1e4, 9), (2e4, 9), (1e4, 11)):
        x, positions = torch.randn(tokens, HEAD, generator=generator), torch.arange(tokens)
        assert torch.equal(work(x, positions, base), turn(x, CF.Rope(HEAD, positions, base=base)))
    torch._dynamo.reset()


def test_what_a_mode_made_first_serves_no_other(generator):
    """A fake tensor, or one of inference mode, kept for later calls would break them."""
    x, positions = torch.randn(5, HEAD, generator=generator), torch.arange(5)
    with FakeTensorMode() as fake:
        turn(fake.from_tensor(x), CF.Rope(HEAD, fake.from_tensor(positions), base=1234.5))
    with torch.inference_mode():
        out = turn(x, CF.Rope(HEAD, positions, base=1234.5))
    x.requires_grad_()
    again = turn(x, CF.Rope(HEAD, positions, base=1234.5))
    again.sum().backward()
    assert torch.equal(again, out) and x.grad.isfinite().all()


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_rotation(generator, strict):
    class Turn(torch.nn.Module):
        def forward(self, x, positions):
            return turn(x, CF.Rope(HEAD, positions))

    x, positions = torch.randn(5, HEAD, generator=generator), torch.arange(5)
    exported = torch.export.export(Turn(), (x, positions), strict=strict)
    assert torch.equal(exported.module()(x, positions), turn(x, CF.Rope(HEAD, positions)))
