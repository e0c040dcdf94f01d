"""Every program of the library, and every derived backward whose text is checked in, against the reference backend on the
same tensors, on ragged sizes, aligned and not. The library's programs run at every candidate schedule."""

import pathlib

import pytest
import torch

import coda_cpp as coda
from canvas import Canvas
from plans import prepare_candidates
from support import TORCH, torch_generator

DEPTH, PARTIALS = 72, 9


def programs():
    return [(name, program) for name, program in coda.epilogues.library().items() if program.accumulators > 0]


def backwards():
    texts = sorted((pathlib.Path(__file__).parents[1] / "golden").glob("backward_*.ir"))
    return [(text.stem, coda.parse_program(text.read_text())) for text in texts]


def columns(program, least):
    return -(-least // program.column_granule) * program.column_granule


def draw(operand, rows, cols, dtype, generator):
    """A CPU tensor for an input: indices where a name says so, sums of squares for partials, else normal numbers."""
    normal = lambda *shape: torch.randn(shape, generator=generator)  # noqa: E731
    if operand.name in ("targets", "target_index"):
        return torch.randint(0, cols, (rows,), generator=generator)
    if operand.name == "positions":
        return torch.randint(0, 100, (rows,), generator=generator, dtype=torch.int32)
    if operand.partials is not None:
        return (normal(rows, PARTIALS) if operand.partials.op == "lse" else
                30 + 70 * torch.rand((rows, PARTIALS), generator=generator))
    width = operand.period or (cols if operand.pairing is None else cols // operand.pairing.head * operand.pairing.width // 2)
    stored = TORCH[str(operand.dtype)] if operand.dtype is not None else dtype
    return {"tile": lambda: normal(rows, width).to(stored), "row": lambda: normal(width).to(stored),
            "col": lambda: normal(rows), "scalar": lambda: normal(1)[0]}[operand.shape]()


def on_gpu(tensor, aligned):
    if aligned or tensor.dim() != 2 or tensor.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        return tensor.cuda()
    return Canvas(*tensor.shape, tensor.dtype, pad=3, offset=1).fill(tensor.cuda())


SIZES = pytest.mark.parametrize("rows, least, aligned", [(200, 500, True), (77, 141, False)], ids=["aligned", "unaligned"])


def drawn(program, rows, cols):
    """A, the weights and the inputs of a program, on the CPU. Prints the seed they come from."""
    generator = torch_generator()
    a = torch.randn(rows, DEPTH, generator=generator).bfloat16()
    weights = [torch.randn(cols, DEPTH, generator=generator).bfloat16() for _ in range(program.accumulators)]
    return a, weights, {o.name: draw(o, rows, cols, a.dtype, generator) for o in program.operands if o.role == "in"}


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def compare(got, expected, where=""):
    for made, wanted in zip(as_tuple(got), as_tuple(expected), strict=True):
        wanted = wanted.double()
        scale = wanted[wanted.isfinite()].abs().max().clamp(min=1)
        rounding = 0.0079 if made.dtype == torch.bfloat16 else 2e-6
        torch.testing.assert_close(made.cpu().double(), wanted, rtol=rounding, atol=3e-5 * scale.item(), equal_nan=True,
                                   msg=lambda text: f"{where}: {text}")


def check_product(name, program, rows, least, aligned, every):
    a, weights, inputs = drawn(program, rows, columns(program, least))
    factor = lambda where: coda.pair(*(where(w).T for w in weights)) if len(weights) == 2 else where(weights[0]).T  # noqa: E731
    expected = coda.gemm(a, factor(lambda w: w), program, backend="reference", **inputs)
    gpu_inputs = {key: on_gpu(value, aligned) for key, value in inputs.items()}
    plans = prepare_candidates(on_gpu(a, aligned), factor(lambda w: on_gpu(w, aligned)), program, every, **gpu_inputs)
    print(f"{name}: {len(plans)} schedules")
    for schedule, plan in plans.items():
        compare(plan(), expected, schedule)


@SIZES
@pytest.mark.parametrize("name, program", programs(), ids=[name for name, _ in programs()])
def test_program(name, program, rows, least, aligned):
    check_product(name, program, rows, least, aligned, every=1)


@SIZES
@pytest.mark.parametrize("name, program", backwards(), ids=[name for name, _ in backwards()])
def test_derived_backward(name, program, rows, least, aligned):
    if program.accumulators > 0:
        return check_product(name, program, rows, least, aligned, every=4)
    cols = columns(program, least)
    _, _, inputs = drawn(program, rows, cols)
    expected = coda.elementwise(program, shape=(rows, cols), backend="reference", **inputs)
    compare(coda.elementwise(program, shape=(rows, cols), **{k: on_gpu(v, aligned) for k, v in inputs.items()}), expected)


@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("weight", ["gamma", "one_plus_gamma", "none"])
def test_a_pass_without_a_product(weight, aligned):
    program = coda.epilogues.rms_entry(weight=weight)
    x, gamma = torch.randn(333, 1001).bfloat16(), torch.randn(1001).bfloat16()
    operands = {"x": x} if weight == "none" else {"x": x, "gamma": gamma}
    expected = coda.elementwise(program, backend="reference", **operands)
    got = coda.elementwise(program, **{name: on_gpu(value, aligned) for name, value in operands.items()})
    compare(got, expected)
