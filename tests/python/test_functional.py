"""coda_cpp.functional on the CPU: values and gradients under the 2x rule, at any shape and stride."""

import pytest
import torch

import coda_cpp as coda
from coda_cpp import functional as CF
from functional_cases import ALL, CASES, D, MEANS, N, compare, doubled, grad_like, results

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ALL)
def test_values_and_gradients(generator, name, dtype):
    case, dtype = ALL[name], DTYPES[dtype]
    t, i = case.draw((2, 35), generator, dtype)
    compare(case, t, i, grad_like(case, t, i, generator).to(dtype), dtype)


@pytest.mark.parametrize("lead", [(0,), (1,), (7,), (), (2, 0), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("name", ALL)
def test_any_leading_dimensions(generator, name, lead):
    case = ALL[name]
    if lead == () and name == "gemm_of_a_function":
        pytest.skip("gemm takes matrices")
    t, i = case.draw(lead, generator)
    grad = grad_like(case, t, i, generator)
    if name in MEANS and grad.numel() and not sum(lead):
        i["targets"] = torch.zeros(lead, dtype=torch.int64)
    if name in MEANS and t["x"].numel() == 0:
        assert case.ours(t, i).isnan()
        return
    exact = results(case.theirs, doubled(t), i, grad.double())
    for key, value in results(case.ours, t, i, grad).items():  # too few numbers for the 2x rule
        torch.testing.assert_close(value.double(), exact[key], rtol=1e-4, atol=1e-4, msg=lambda text, key=key: f"{key}: {text}")


def halved(tensor):
    """The same numbers, every second of a wider tensor."""
    return torch.stack([tensor, torch.full_like(tensor, float("nan"))], -1).flatten(-2)[..., ::2]


@pytest.mark.parametrize("name", CASES)
def test_strided_inputs_and_gradients(generator, name):
    case = CASES[name]
    t, i = case.draw((3, 5), generator)
    grad = grad_like(case, t, i, generator)
    expected = results(case.ours, t, i, grad)
    strided = {key: halved(tensor.detach()).requires_grad_() for key, tensor in t.items()}
    got = results(case.ours, strided, i, halved(grad) if grad.dim() else grad)
    for key, value in expected.items():
        torch.testing.assert_close(got[key], value, rtol=1e-5, atol=1e-5, msg=key)


@pytest.mark.parametrize("name", CASES)
def test_expanded_inputs_and_gradients(generator, name):
    case = CASES[name]
    t, i = case.draw((3, 5), generator)
    t["x"] = t["x"].detach()[:1].requires_grad_()
    one = torch.ones(())
    wide = lambda f: lambda t, i: f(t | {"x": t["x"].expand(3, 5, D)}, i)  # noqa: E731
    compare(case.__class__(wide(case.ours), wide(case.theirs), case.shapes), t, i, one, torch.float32)
    case.ours(t | {"x": t["x"].expand(3, 5, D)}, i).sum().backward()
    assert all(tensor.grad is not None for tensor in t.values())


@pytest.mark.parametrize("name", ["linear_bias", "linear_swiglu", "rmsnorm_linear", "rmsnorm_swiglu"])
def test_weights_without_rows(generator, name):
    """An output of no columns has gradients of zeros."""
    case = CASES[name]
    t, i = case.draw((7,), generator)
    t = {key: tensor if key in ("x", "gamma") else tensor.detach()[:0].requires_grad_() for key, tensor in t.items()}
    found = results(case.ours, t, i, torch.ones(7, 0))
    assert found["out"].shape == (7, 0)
    assert all(torch.equal(found[f"d_{key}"], torch.zeros_like(tensor)) for key, tensor in t.items())


def test_one_tensor_as_two_weights_and_as_input_too(generator):
    w = torch.randn(D, D, generator=generator) / 8
    ours, theirs = (w.clone().requires_grad_() for _ in range(2))
    (CF.linear_swiglu(ours, ours, ours) + CF.linear(ours, ours)).sum().backward()
    up = theirs @ theirs.T
    (torch.nn.functional.silu(up) * up + up).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)


def test_gradients_of_weights_lie_in_memory_as_the_weights(generator):
    x, w = torch.randn(5, D, generator=generator), torch.randn(N, D, generator=generator)
    ours, across = w.clone().requires_grad_(), w.T.contiguous().requires_grad_()
    CF.linear(x, ours).sum().backward()
    coda.gemm(x, across).sum().backward()
    assert ours.grad.is_contiguous() and across.grad.is_contiguous()
    torch.testing.assert_close(ours.grad.T, across.grad)


def test_no_transposition_of_a_weight_is_recorded(generator):
    w = torch.randn(N, D, generator=generator).requires_grad_()
    out = CF.linear(torch.randn(5, D, generator=generator), w)  # kept: older versions of torch free the node with it
    leaf, = [function for function, _ in out.grad_fn.next_functions if function is not None]
    assert leaf.variable is w


@pytest.mark.parametrize("frozen, expected", [((), 2), (("x",), 1), (("gate", "up"), 1), (("up",), 2), (("x", "up"), 1)],
                         ids=str)
def test_what_is_frozen_costs_no_product(generator, products, frozen, expected):
    t, i = CASES["linear_swiglu"].draw((7,), generator)
    for name in frozen:
        t[name].requires_grad_(False)
    out = CASES["linear_swiglu"].ours(t, i)
    assert len(products.of(lambda: out.sum().backward())) == expected
    assert [name for name, tensor in t.items() if tensor.grad is None] == list(frozen)


def test_an_output_changed_in_place_is_seen(generator):
    t, i = CASES["linear_sigmoid"].draw((7,), generator)
    out = CASES["linear_sigmoid"].ours(t, i)
    out.mul_(2)  # autograd knows: the derivative is made of the output
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_wide_norms_finish_their_sums(generator):
    """8256 columns leave more partials than a load finishes."""
    x = torch.randn(3, 8256, generator=generator, requires_grad=True)
    w = (torch.randn(8, 8256, generator=generator) / 90).requires_grad_()
    out = CF.rmsnorm_linear(x, None, w)
    expected = torch.nn.functional.rms_norm(x, (8256,), eps=1e-6) @ w.T
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    for got, truth in zip(torch.autograd.grad(out.square().sum(), [x, w]), torch.autograd.grad(expected.square().sum(), [x, w])):
        torch.testing.assert_close(got, truth, rtol=1e-3, atol=1e-4)
