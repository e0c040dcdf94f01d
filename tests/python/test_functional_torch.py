"""What PyTorch asks of an op: opcheck, torch.compile without a break, checkpointing, autocast, main gradients, modes."""

import os
import subprocess
import sys

import pytest
import torch
from torch.library import opcheck
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import coda_cpp as coda
from coda_cpp import functional as CF
from functional_cases import ALL, CASES, D, N, PASSES, own, results
from support import DIFFERENTIATED_AGAIN


@pytest.fixture
def draw(generator):
    return lambda *shape: torch.randn(shape, generator=generator).requires_grad_()


def saving(program, wanted):
    return coda.with_saved(program, coda._core.values_to_save(coda.with_saved(program, []), wanted, [coda.Cotangent.load("out")]))


@pytest.mark.parametrize("view", ["single", "pair", "concat", "concat_k"])
def test_opcheck_of_gemm(draw, view):
    parts = 1 if view == "single" else 2
    b = [draw(D, N) for _ in range(parts)]
    a = [draw(2, 5, D) for _ in range(parts if view == "concat_k" else 1)]
    program = saving("swiglu" if view == "pair" else "bias_gelu", ["acc0", "acc1" if view == "pair" else "bias"])
    segments = parts if view == "concat" else 1
    operands = [] if view == "pair" else [draw(N) for _ in range(segments)]
    opcheck(torch.ops.coda.gemm.default, (a, b, operands, [], view if view == "concat_k" else "single", view,
                                          [program.text] * segments, ""))


def test_opcheck_of_gemm_with_main_gradients(draw):
    identity, main = coda.epilogues.identity().text, torch.zeros(D, N)
    opcheck(torch.ops.coda.gemm.default, ([draw(5, D)], [draw(D, N)], [], [main], "single", "single", [identity], ""))


def test_opcheck_of_elementwise(draw):
    opcheck(torch.ops.coda.elementwise.default, ([draw(2, 5, D), draw(D)], coda.epilogues.rms_entry().text, 10, D, ""),
            test_utils=["test_schema", "test_faketensor", "test_autograd_registration"])
    alone = coda.epilogues.rms_entry(weight="none").text
    opcheck(torch.ops.coda.elementwise.default, ([draw(5, D)], alone, 5, D, ""))


def test_opcheck_of_add_products(draw):
    into, a, b = torch.zeros(N, D), draw(N, 5).detach(), draw(5, D).detach()
    opcheck(torch.ops.coda.add_products.default, ([into], [a], [b], "single", "single", ""))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["f32", "bf16", "f16"])
@pytest.mark.parametrize("mean", [True, False])
def test_opcheck_of_linear_cross_entropy(draw, mean, dtype):
    targets = torch.tensor([1, -100, 3, 7, 0]).repeat(15)  # two chunks
    x, w = (draw(*shape).detach().to(dtype).requires_grad_() for shape in ((75, D), (N, D)))
    opcheck(torch.ops.coda.linear_cross_entropy.default, (x, w, targets, [], -100, mean, True, True))


def test_opcheck_of_linear_cross_entropy_with_a_main_gradient(draw):
    opcheck(torch.ops.coda.linear_cross_entropy.default, (
        draw(5, D).detach().bfloat16().requires_grad_(), draw(N, D).detach().bfloat16().requires_grad_(), torch.arange(5),
        [torch.zeros(N, D)], -100, True, True, True))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ALL)
def test_compiled_is_eager(generator, name, dynamic):
    case = ALL[name]
    t, i = case.draw((3, 5), generator)
    compiled = torch.compile(case.ours, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    grad = torch.randn(case.ours(t, i).shape, generator=generator)
    expected, got = results(case.ours, t, i, grad), results(compiled, t, i, grad)
    assert all(torch.equal(got[key], value) for key, value in expected.items())
    torch._dynamo.reset()


def test_inductor_fuses_round_it(generator):
    """With work of PyTorch's own before, between and behind."""
    def work(t, i):
        hidden = CF.rmsnorm_swiglu(t["x"] * 2, t["gamma"], t["gate"], t["up"]) + 1
        return CF.linear(hidden.relu(), t["down"]).square().mean()

    t = {name: torch.randn(shape, generator=generator).requires_grad_() for name, shape in {
        "x": (2, 5, D), "gamma": (D,), "gate": (N, D), "up": (N, D), "down": (D, N)}.items()}
    expected, got = (results(run, t, {}, torch.ones(())) for run in (work, torch.compile(work, fullgraph=True)))
    for key, value in expected.items():
        torch.testing.assert_close(got[key], value, rtol=1e-4, atol=1e-4)
    torch._dynamo.reset()


def test_compiled_gemm_and_elementwise_of_any_kind(generator):
    """Pairs, concats with segments, several named outputs, numbers for scalars."""
    def work(t, i):
        entry = coda.elementwise("rms_entry", x=t["x"], gamma=t["gamma"])
        gated = coda.gemm(entry.h, coda.pair(t["gate"].T, t["up"].T), "swiglu")
        first, second = coda.gemm(entry.h, coda.concat(t["gate"].T, t["up"].T), [
            coda.segment("bias_gelu", bias=t["bias"]), coda.segment("scale", alpha=0.5)])
        deep = coda.gemm(coda.concat_k(first, second), coda.concat_k(t["gate"], t["up"]), "sigmoid")
        return torch.cat([gated, first, second, deep, entry.sum_sq.sum(-1, keepdim=True)], -1)

    t = {name: torch.randn(shape, generator=generator).requires_grad_() for name, shape in {
        "x": (5, D), "gamma": (D,), "gate": (N, D), "up": (N, D), "bias": (N,)}.items()}
    grad = torch.randn(5, 3 * N + D + 1, generator=generator)
    expected = results(work, t, {}, grad)
    got = results(torch.compile(work, fullgraph=True, backend="aot_eager"), t, {}, grad)
    assert all(torch.equal(got[key], value) for key, value in expected.items())
    torch._dynamo.reset()


def test_another_program_compiles_nothing_again(draw):
    x, w, bias, scale, extra = draw(5, D), draw(N, D), draw(N), draw(5), draw(5, N)
    work = torch.compile(lambda x: coda.gemm(x, w.T, own, extra=extra, bias=bias, scale=scale), fullgraph=True,
                         backend="aot_eager")
    work(x)
    coda.gemm(x, w.T, "residual", residual=extra)
    with torch._dynamo.config.patch(error_on_recompile=True):
        work(x)
    torch._dynamo.reset()


def test_an_exported_module_has_the_ops(draw):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gamma, self.both = (torch.nn.Parameter(draw(*shape).detach()) for shape in [(D,), (2 * N, D)])

        def forward(self, x):
            return CF.rmsnorm_swiglu(x, self.gamma, self.both)

    block, x = Block(), draw(5, D).detach()
    exported = torch.export.export(block, (x,))
    assert torch.ops.coda.gemm.default in [node.target for node in exported.graph.nodes]
    assert torch.equal(exported.module()(x), block(x))


@pytest.mark.parametrize("name", ALL)
def test_checkpointing_gives_the_same_bits(generator, name):
    case = ALL[name]
    t, i = case.draw((3, 5), generator)
    grad = torch.randn(case.ours(t, i).shape, generator=generator)
    expected = results(case.ours, t, i, grad)
    again = results(lambda t, i: checkpoint(case.ours, t, i, use_reentrant=False), t, i, grad)
    assert all(torch.equal(again[key], value) for key, value in expected.items())


def test_selective_checkpointing_sees_the_ops(generator):
    t, i = CASES["rmsnorm_swiglu"].draw((3, 5), generator)
    grad = torch.randn(3, 5, N, generator=generator)
    contexts = lambda: create_selective_checkpoint_contexts([torch.ops.coda.gemm.default])  # noqa: E731
    expected = results(CASES["rmsnorm_swiglu"].ours, t, i, grad)
    again = results(lambda t, i: checkpoint(CASES["rmsnorm_swiglu"].ours, t, i, use_reentrant=False, context_fn=contexts),
                    t, i, grad)
    assert all(torch.equal(again[key], value) for key, value in expected.items())


@pytest.mark.parametrize("name", ALL)
def test_autocast_casts_factors(generator, name):
    case = ALL[name]
    t, i = case.draw((3, 5), generator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = case.ours(t, i)
    assert out.dtype == (torch.float32 if "cross" in name or name in PASSES else torch.bfloat16)
    out.sum().backward()
    assert all(tensor.grad.dtype == torch.float32 for tensor in t.values())
    exact = case.theirs(t, i)
    assert (out - exact).abs().mean() <= 0.05 * exact.abs().mean() + 1e-3
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        assert torch.equal(case.ours(t, i), out)


def main_work(t):
    out = CF.linear(CF.linear_swiglu(t["x"], t["gate"], t["up"], main_grad=True), t["down"], main_grad=True)
    return out.square().sum() + CF.linear_cross_entropy(t["x"], t["head"], torch.tensor([1, 2, 3]), main_grad=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("compiled", [False, True])
def test_main_gradients_are_added_to(draw, compiled, dtype):
    shapes = {"x": (3, D), "gate": (N, D), "up": (N, D), "down": (D, N), "head": (N, D)}
    t = {name: (draw(*shape).detach() / 8).to(dtype).requires_grad_() for name, shape in shapes.items()}
    for name, tensor in t.items():
        tensor.main_grad = torch.ones(tensor.shape)
    t["up"].requires_grad_(False)
    work = torch.compile(main_work, fullgraph=True, backend="aot_eager") if compiled else main_work
    for _ in range(2):
        work(t).backward()
    torch._dynamo.reset()
    plain = {name: tensor.detach().requires_grad_(name != "up") for name, tensor in t.items()}
    for tensor in plain.values():
        tensor.main_grad = torch.zeros(tensor.shape)
    out = CF.linear(CF.linear_swiglu(plain["x"], plain["gate"], plain["up"]), plain["down"])
    (out.square().sum() + CF.linear_cross_entropy(plain["x"], plain["head"], torch.tensor([1, 2, 3]))).backward()
    for name in ("gate", "down", "head"):
        assert t[name].grad is None
        torch.testing.assert_close(t[name].main_grad, 1 + 2 * plain[name].grad.float(), rtol=1e-2, atol=1e-3)
    assert torch.equal(t["up"].main_grad, torch.ones(N, D)) and t["x"].grad is not None


def test_gradients_of_gradients_are_refused(generator):
    for name in ("linear_act", "linear_cross_entropy"):
        t, i = CASES[name].draw((7,), generator)
        first, = torch.autograd.grad(CASES[name].ours(t, i).sum(), t["x"], create_graph=True)
        with pytest.raises(coda.errors.NotImplementedError) as raised:
            first.sum().backward()
        assert str(raised.value) == DIFFERENTIATED_AGAIN


def under_a_dual_level(function, x):
    with torch.autograd.forward_ad.dual_level():
        return function(torch.autograd.forward_ad.make_dual(x, x))


TRANSFORMS = {"vmap": lambda f, x: torch.vmap(f)(x), "grad": lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
              "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)), "forward": under_a_dual_level}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("call", ["linear", "gemm", "elementwise", "loss", "module"])
def test_transforms_are_refused(draw, call, transform):
    """A forward-mode derivative of an op without a rule would be zeros, in silence."""
    x, w = draw(2, 5, D).detach(), draw(N, D).detach()
    module = coda.nn.RMSNormLinear(D, N).requires_grad_(False)
    function = {"linear": lambda x: CF.linear(x, w), "gemm": lambda x: coda.gemm(x, w.T), "module": module,
                "elementwise": lambda x: coda.elementwise("rms_entry", x=x, gamma=w[0]).h,
                "loss": lambda x: CF.linear_cross_entropy(x, w, torch.zeros(x.shape[:-1], dtype=torch.int64))}[call]
    with pytest.raises(coda.errors.NotImplementedError) as raised:
        TRANSFORMS[transform](function, x)
    named = {"linear": "linear: ", "loss": "linear_cross_entropy: ", "module": "RMSNormLinear: "}.get(call, "")
    assert str(raised.value) == named + (
        "coda_cpp: a call is made in a transform of torch.func or under forward-mode differentiation, expected reverse mode "
        "alone: coda has no rules for vmap and jvp; take gradients by backward() or torch.autograd.grad")
    assert function(x).isfinite().all()  # outside it runs


def test_functional_call_is_no_transform(draw):
    x, module = draw(5, D), coda.nn.RMSNormLinear(D, N)
    other = {name: draw(*parameter.shape) for name, parameter in module.named_parameters()}
    out = torch.func.functional_call(module, other, (x,))
    assert all(gradient.any() for gradient in torch.autograd.grad(out.square().sum(), list(other.values())))


def test_in_double_by_the_reference(generator):
    """The derived gradients themselves, without rounding."""
    x, w = (torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in [(3, 8), (16, 8)])
    others = {name: torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
              for name, shape in {"extra": (3, 16), "bias": (16,), "scale": (3,)}.items()}
    ours = coda.gemm(x, w.T, own, backend="reference", **others)
    z = x @ w.T * others["scale"][:, None] + others["bias"]
    theirs = z.tanh() + z.sigmoid() * others["extra"]
    for got, truth in zip(*(torch.autograd.grad(out.square().sum(), [x, w, others["extra"]]) for out in (ours, theirs))):
        torch.testing.assert_close(got, truth, rtol=1e-12, atol=1e-12)


def python(script, **environment):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment)


def test_torch_is_imported_for_functional_alone():
    script = "import sys, coda_cpp; assert 'torch' not in sys.modules; coda_cpp.functional; assert 'torch' in sys.modules"
    assert python(script).returncode == 0


@pytest.mark.parametrize("name", ["functional", "nn", "patch", "unpatch", "check"])
@pytest.mark.parametrize("prepare, text", [
    ("sys.modules['torch'] = None", "torch is not installed, expected 2.6 or newer: pip install 'torch>=2.6'; without it coda_cpp "
                                    "runs on numpy arrays"),
    ("import torch; torch.__version__ = '2.5.1+cpu'", "torch 2.5.1+cpu, expected 2.6 or newer: pip install 'torch>=2.6'"),
], ids=["missing", "old"])
def test_a_torch_that_does_not_fit_is_named(prepare, text, name):
    said = python(f"import sys\n{prepare}\nimport coda_cpp\ntry:\n  coda_cpp.{name}\nexcept coda_cpp.errors.ImportError as e:"
                  "\n  print(e, end='')")
    assert said.stdout == f"coda_cpp.{name.removeprefix('un')}: {text}", said.stderr
