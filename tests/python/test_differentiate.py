"""differentiate: derived backwards run on the CPU, against torch.autograd and central differences, both in double."""

import pathlib

import numpy as np
import pytest
import torch

import coda_cpp as coda
from support import generator

M, N, K, HEAD, COUNT, EPS = 70, 128, 24, 64, 576, 1e-5
E, Cot = coda.epilogues, coda.Cotangent
GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
NORM = {"count": COUNT, "eps": EPS}


def operand_named(program, name):
    return next(operand for operand in program.operands if operand.name == name)


def names_of(program, role):
    return [operand.name for operand in program.operands if (operand.role == "in") == (role == "in")]


def run(program, tensors, factors, shape):
    """Outputs of a program by name, by the definition, in double; partials are f32."""
    given = {name: tensors[name] for name in names_of(program, "in")}
    if program.accumulators:
        result = coda.gemm(*factors, program, backend="reference", **given)
    else:
        result = coda.elementwise(program, shape=shape, backend="reference", **given)
    names = names_of(program, "out")
    return dict(zip(names, [result] if len(names) == 1 else result))


def finished(gradient, shape_of_operand, outputs, tensors, shape):
    """A gradient with the sums a backward leaves to its caller."""
    value = outputs[gradient.output]
    if gradient.finish is not None:
        return run(gradient.finish, tensors | outputs, None, shape)[f"d_{gradient.of}"].astype(np.float64)
    value = value.astype(np.float64)
    if shape_of_operand in ("row", "col") and value.ndim == 2:
        value = value.sum(0 if shape_of_operand == "row" else 1)
    if gradient.period:
        value = value.reshape(-1, gradient.period).sum(0)
    return np.asarray([value.sum()]) if shape_of_operand == "scalar" else value


def gradients(forward, backward, tensors, factors, shape):
    """The finished gradients of a backward by name."""
    outputs = run(backward.program, tensors, factors, shape)
    shapes = {operand.name: operand.shape for operand in forward.operands}
    return {g.of: finished(g, shapes.get(g.of), outputs, tensors, shape) for g in backward.gradients}


# torch's side: functions of (acc, acc1, tensors) to outputs, partials finished.


def rotate(z, positions):
    frequencies = 10000.0 ** (-torch.arange(0, HEAD, 2).double() / HEAD)
    cos, sin = (f(positions[:, None] * frequencies)[:, None] for f in (torch.cos, torch.sin))
    first, second = z.reshape(len(z), -1, HEAD).chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).reshape(z.shape)


def head_norm(z, eps=1e-6):
    heads = z.reshape(len(z), -1, HEAD)
    return (heads * torch.rsqrt((heads**2).mean(-1, keepdim=True) + eps)).reshape(z.shape)


def rstd(t):
    return torch.rsqrt(t["sum_sq"].sum(1, keepdim=True) / COUNT + EPS)


def torch_residual_rms(acc, _, t):
    x = acc + t["residual"]
    return {"x": x, "h": x * t["gamma"], "sum_sq": (x**2).sum(1)}


def torch_qk_norm_rope(acc, _, t):
    z = acc * rstd(t)
    return {"z": z, "out": rotate(head_norm(z) * t["gamma"].repeat(N // HEAD), t["positions"])}


def torch_gated(activation):
    return lambda acc, acc1, t: {"gate": acc, "up": acc1, "out": activation(acc) * acc1}


@coda.epilogue
def user_written(acc, extra: coda.Tile, bias: coda.Row, scale: coda.Col, mix: coda.Scalar):
    z = acc * scale + bias
    hot = coda.exp(coda.clamp(z, -2, 2))
    return {"z": z, "out": coda.tanh(z) * mix + coda.min(hot, extra), "heat": coda.reduce_col(hot, "sum", 64)}


def torch_user_written(acc, _, t):
    z = acc * t["scale"][:, None] + t["bias"]
    hot = torch.exp(torch.clamp(z, -2, 2))
    return {"z": z, "out": torch.tanh(z) * t["mix"] + torch.minimum(hot, t["extra"]), "heat": hot.sum(0)}


def torch_lse(acc, _, t):
    return {"lse": torch.logsumexp(acc, 1), "target": acc.gather(1, t["targets"][:, None])[:, 0]}


SAVED_GATES = [Cot.acc("out"), Cot.none("gate"), Cot.none("up")]
# name: (program, wrt, cotangents, options, torch's function)
CASES = {
    "bias_gelu": (coda.with_saved("bias_gelu", ["z"]), ["acc0", "bias"], [Cot.acc("out"), Cot.none("z")], {},
                  lambda acc, _, t: {"z": acc + t["bias"], "out": torch.nn.functional.gelu(acc + t["bias"])}),
    "bias_gelu_again": ("bias_gelu", ["bias", "acc0"], [Cot.load("out", "dy")], {"recompute_acc": True},
                        lambda acc, _, t: {"out": torch.nn.functional.gelu(acc + t["bias"])}),
    "swiglu": (E.gated("swiglu", save_inputs=True), ["acc0", "acc1"], SAVED_GATES, {},
               torch_gated(torch.nn.functional.silu)),
    "geglu": (E.gated("geglu", save_inputs=True), ["acc0", "acc1"], SAVED_GATES, {},
              torch_gated(torch.nn.functional.gelu)),
    "residual_rms": (E.residual_rms(), ["acc0", "residual", "gamma"],
                     [Cot.load("x"), Cot.acc("h"), Cot.load("sum_sq"), Cot.load("x", "d_x_too")], {},
                     torch_residual_rms),
    "rms_rope": (E.rms_rope(**NORM, head=HEAD), ["acc0", "sum_sq"], [Cot.load("out")], {},
                 lambda acc, _, t: {"out": rotate(acc * rstd(t), t["positions"])}),
    "qk_norm_rope": (E.qk_norm_rope(count=COUNT, norm_eps=EPS, head=HEAD, save_inputs=True),
                     ["acc0", "sum_sq", "gamma"], [Cot.load("out"), Cot.none("z")], {}, torch_qk_norm_rope),
    "lse": ("lse", ["acc0"], [Cot.load("lse"), Cot.load("target")], {"recompute_acc": True}, torch_lse),
    "lse_of_stored_logits": (E.lse(store_logits=True), ["acc0"],
                             [Cot.load("lse"), Cot.load("target"), Cot.load("logits")], {},
                             lambda acc, _, t: {"logits": acc, **torch_lse(acc, _, t)}),
    "user_written": (user_written, ["acc0", "extra", "bias", "scale", "mix"],
                     [Cot.none("z"), Cot.load("out"), Cot.load("heat")], {"recompute_acc": True, "partial_width": 128},
                     torch_user_written),
}


def draw_operands(program, rng, cols=N):
    """Random tensors for the inputs of a program of the library, or with its names."""
    makers = {"positions": lambda: rng.integers(0, 50, M), "targets": lambda: rng.integers(0, cols, M),
              "sum_sq": lambda: rng.uniform(100, 300, (M, 3)).astype(np.float32)}
    shapes = {"tile": (M, cols), "row": (cols,), "col": (M,), "scalar": (1,)}
    tensors = {}
    for operand in program.operands:
        if operand.role == "in":
            shape = shapes[operand.shape]
            if operand.period:
                shape = (*shape[:-1], operand.period)
            tensors[operand.name] = makers.get(operand.name, lambda: rng.standard_normal(shape))()
    return tensors


def draw_cotangent(output, rng, cols=N):
    return rng.standard_normal({"tile": (M, cols), "row": cols, "col": M}[output.shape])


def torch_gradients(function, accs, tensors, wrt, cotangents):
    """Gradients of Σ cotangent · output, by name; those of partials by the finished reduction."""
    leaves = {name: torch.from_numpy(np.asarray(value)) for name, value in (tensors | accs).items()}
    for name in wrt:
        leaves[name] = leaves[name].double().requires_grad_()
    outputs = function(leaves["acc0"], leaves.get("acc1"), leaves)
    loss = sum((torch.from_numpy(cotangent) * outputs[name]).sum() for name, cotangent in cotangents)
    found = torch.autograd.grad(loss, [leaves[name] for name in wrt])
    return {name: (d[:, 0] if name == "sum_sq" else d).numpy() for name, d in zip(wrt, found)}


def check(name, got, expected, tolerance):
    assert got.shape == expected.shape, name
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_torchs(name):
    epilogue, wrt, how, options, function = CASES[name]
    backward = coda.differentiate(epilogue, wrt, how, **options)
    forward = coda.with_saved(epilogue, [])
    rng = generator()
    a, weights = rng.standard_normal((M, K)), [rng.standard_normal((K, N)) / 5 for _ in range(forward.accumulators)]
    factors = a, coda.pair(*weights) if len(weights) == 2 else weights[0]
    tensors = draw_operands(forward, rng)
    kept = run(forward, tensors, factors, (M, N))
    behind = rng.standard_normal((M, K)), rng.standard_normal((K, N))
    cotangents = []
    for cotangent in how:
        if cotangent.source == "load":
            tensors[cotangent.operand] = draw_cotangent(operand_named(forward, cotangent.output), rng)
        if cotangent.source != "none":
            value = tensors[cotangent.operand] if cotangent.source == "load" else behind[0] @ behind[1]
            cotangents.append((cotangent.output, value))
    product = factors if options.get("recompute_acc") else behind
    got = gradients(forward, backward, tensors | kept, product, (M, N))
    expected = torch_gradients(function, {f"acc{i}": a @ w for i, w in enumerate(weights)}, tensors, wrt, cotangents)
    assert [g.of for g in backward.gradients] == wrt
    rounded = {o.name for o in backward.program.operands if o.partials and (o.name in kept or o.role != "in")}
    for gradient in backward.gradients:
        in_f32 = rounded & {gradient.output, *backward.saved} or gradient.finish is not None
        check(gradient.of, got[gradient.of], expected[gradient.of], 2e-6 if in_f32 else 1e-11)


def test_a_delayed_norm_and_the_product_behind_it():
    rng = generator()
    behind = coda.differentiate(E.rms(count=N, eps=EPS), ["acc0", "sum_sq"], [Cot.load("out")])
    before = coda.differentiate(
        "residual_rms", ["acc0", "residual", "gamma"],
        [Cot.load("x"), Cot.acc("h"), Cot.computed("sum_sq", behind.gradients[1].finish)])
    assert set(before.cotangents) == {"d_x", "s_sum_sq"} and set(before.saved) == {"x", "sum_sq"}
    assert before.inputs == ("gamma",)
    a, b, weight = rng.standard_normal((M, K)), rng.standard_normal((K, N)), rng.standard_normal((N, N))
    operands = {"residual": rng.standard_normal((M, N)), "gamma": rng.standard_normal(N)}
    d_out, d_x = rng.standard_normal((2, M, N))
    first = run(coda.with_saved("residual_rms", []), operands, (a, b), (M, N))
    second = run(E.rms(count=N, eps=EPS), first, (first["h"], weight), (M, N))
    outer = run(behind.program, first | second | {"d_out": d_out}, None, (M, N))
    inner = gradients(coda.with_saved("residual_rms", []), before,
                      first | operands | {"d_x": d_x, "s_sum_sq": outer["s_sum_sq"]}, (outer["d_acc0"], weight.T), (M, N))
    leaves = [torch.from_numpy(value).requires_grad_() for value in (a @ b, *operands.values())]
    x = leaves[0] + leaves[1]
    out = (torch.nn.functional.rms_norm(x, (N,), eps=EPS) * leaves[2]) @ torch.from_numpy(weight)
    loss = (out * torch.from_numpy(d_out)).sum() + (x * torch.from_numpy(d_x)).sum()
    for got, expected in zip(inner.values(), torch.autograd.grad(loss, leaves)):
        check("norm", got, expected.numpy(), 2e-6)


# Every program of the library, by everything, against differences.

NOT_DIFFERENTIATED = {"positions", "targets", "frequencies", "cos", "sin"}
COLS = 1920  # whole heads of 64, 80, 96 and 128


def exactly(accs):
    """Factors whose products are `accs`."""
    return np.eye(M), coda.pair(*accs) if len(accs) == 2 else (accs or [None])[0]


def loss_of(program, accs, tensors, cotangents):
    """Σ cotangent · output, partials finished."""
    total = 0.0
    for name, value in run(program, tensors, exactly(accs), (M, COLS)).items():
        operand, value = operand_named(program, name), value.astype(np.float64)
        if operand.partials:
            value = {"sum": np.add, "lse": np.logaddexp}[operand.partials.op].reduce(value, axis=1)
        total += (cotangents[f"d_{name}"] * value).sum()
    return total


def difference(program, name, direction, accs, tensors, cotangents, shrink=1.0):
    """The loss's central difference along a direction, and the direction really taken (partials are f32)."""
    losses, values = [], []
    # As small as the outputs' rounding lets it be, so that few elements step over a kink.
    step = 1e-3 if any(o.partials for o in program.operands if o.role != "in") else 1e-5
    step *= shrink
    if name == "sum_sq":
        step *= tensors[name].mean()
    for sign in (1, -1):
        moved, moved_accs = dict(tensors), list(accs)
        origin = accs[int(name[3:])] if name.startswith("acc") else tensors[name]
        values.append((origin + sign * step * direction).astype(origin.dtype))
        if name.startswith("acc"):
            moved_accs[int(name[3:])] = values[-1]
        else:
            moved[name] = values[-1]
        losses.append(loss_of(program, moved_accs, moved, cotangents))
    return (losses[0] - losses[1]) / step, (values[0].astype(np.float64) - values[1]) / step


def agrees_with_differences(program, rng):
    """False where an element steps over a kink: a difference with half the step then differs from the first."""
    wrt = [f"acc{i}" for i in range(program.accumulators)]
    wrt += [operand for operand in names_of(program, "in") if operand not in NOT_DIFFERENTIATED]
    outputs = names_of(program, "out")
    backward = coda.differentiate(program, wrt, map(Cot.load, outputs), recompute_acc=True)
    assert backward.program.name == f"{program.name}_backward"
    accs = [rng.standard_normal((M, COLS)) for _ in range(program.accumulators)]
    tensors = draw_operands(program, rng, COLS)
    cotangents = {f"d_{o}": draw_cotangent(operand_named(program, o), rng, COLS) for o in outputs}
    kept = run(program, tensors, exactly(accs), (M, COLS))
    for of, gradient in gradients(program, backward, tensors | kept | cotangents, exactly(accs), (M, COLS)).items():
        if of == "sum_sq":
            gradient = np.repeat(gradient[:, None], 3, 1)
        size = np.sqrt(gradient.size)
        noise = rng.standard_normal(gradient.shape)
        wanted = gradient / np.linalg.norm(gradient) * size + noise
        found, direction = difference(program, of, wanted, accs, tensors, cotangents)
        bound = 2e-4 * np.linalg.norm(gradient) * np.linalg.norm(direction)
        error = abs(found - (gradient * direction).sum())
        if error < bound:
            continue
        nearer, _ = difference(program, of, wanted, accs, tensors, cotangents, shrink=0.5)
        assert abs(found - nearer) > bound / 8, f"{of}: {error} off, at most {bound}"
        return False
    return True


@pytest.mark.parametrize("name", E.library())
def test_every_library_program_by_everything(name):
    rng = generator()
    assert any(agrees_with_differences(E.library()[name], rng) for _ in range(5)), "a kink in each of five draws"


# What it takes and gives back.


@coda.epilogue
def bias_gelu(acc, bias: coda.Row):
    z = acc + bias
    return coda.gelu(z)


@pytest.mark.parametrize("epilogue", [bias_gelu, "bias_gelu", E.bias("gelu")], ids=["function", "name", "program"])
def test_takes_what_gemm_takes(epilogue):
    backward = coda.differentiate(coda.with_saved(epilogue, ["z"]), ["acc0", "bias"],
                                  (Cot.acc("out"), Cot.none("z")))
    assert backward.program.text == (GOLDEN / "backward_bias_gelu.ir").read_text()
    again = coda.differentiate(epilogue, ["acc0"], [Cot.load("out")], recompute_acc=True)
    assert (again.cotangents, again.saved, again.inputs) == (("d_out",), (), ("bias",))


def test_the_norms_backward_is_the_one_checked_in():
    behind = coda.differentiate(E.rms(**NORM), ["acc0", "sum_sq"], [Cot.load("out")])
    assert behind.program.text == (GOLDEN / "backward_rms.ir").read_text()
    backward = coda.differentiate(
        "residual_rms", ["acc0", "residual", "gamma"],
        [Cot.load("x"), Cot.acc("h"), Cot.computed("sum_sq", behind.gradients[1].finish)])
    assert backward.program.text == (GOLDEN / "backward_residual_rms.ir").read_text()
    assert [(g.of, g.output) for g in backward.gradients] == [
        ("acc0", "d_acc0"), ("residual", "d_acc0"), ("gamma", "d_gamma")]
    assert [repr(g) for g in behind.gradients] == ["<Gradient of acc0 in d_acc0>", "<Gradient of sum_sq in s_sum_sq>"]


def test_gradients_say_what_remains():
    scale = coda.differentiate("scale", ["alpha"], [Cot.load("out")], recompute_acc=True)
    assert [g.sum_rows for g in scale.gradients] == [True]
    heads = coda.differentiate(E.qk_norm_rope(head=HEAD), ["acc0", "gamma"], [Cot.load("out")], recompute_acc=True)
    assert [(g.period, g.sum_rows, g.finish) for g in heads.gradients] == [(0, False, None), (HEAD, False, None)]
    wide = coda.differentiate("bias", ["bias"], [Cot.acc("out")], partial_width=256)
    assert operand_named(wide.program, "d_bias").partials.width == 256


def test_cotangents_tell_what_they_are():
    program = E.rms_entry()
    given = [Cot.none("a"), Cot.acc("a"), Cot.load("a"), Cot.load("a", "b"), Cot.computed("a", program)]
    assert [(c.output, c.source, c.operand, c.program) for c in given] == [
        ("a", "none", "", None), ("a", "acc", "", None), ("a", "load", "d_a", None), ("a", "load", "b", None),
        ("a", "computed", "", program)]
    assert repr(given[3]) == "<Cotangent load of a>"


def test_an_output_that_was_not_kept_is_written_again():
    forward = E.gated(save_inputs=True)
    backward = coda.differentiate(forward, ["acc0", "acc1"], [Cot.acc("out"), Cot.none("gate"), Cot.none("up")],
                                  remade=["out"])
    assert [operand.name for operand in backward.program.operands if operand.role == "out"] == ["d_acc0", "d_acc1", "out"]
    rng = generator()
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    x, first, second, d_y, down = draw(M, K), draw(N, K), draw(N, K), draw(M, K), draw(K, N)
    kept = coda.gemm(x, coda.pair(first.T, second.T), forward)
    again = coda.gemm(d_y, down, backward.program, gate=kept.gate, up=kept.up)
    np.testing.assert_allclose(again.out, kept.out, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", E.library())
def test_values_to_save_are_enough(name):
    program = E.library()[name]
    wrt = [f"acc{i}" for i in range(program.accumulators)] or names_of(program, "in")[:1]
    how = [Cot.load(output) for output in names_of(program, "out")]
    values = coda._core.values_to_save(program, wrt, how)
    coda.differentiate(coda.with_saved(program, values), wrt, how + [Cot.none(value) for value in values])
