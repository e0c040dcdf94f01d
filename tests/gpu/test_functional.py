"""coda_cpp.functional on the GPU: the cases of the CPU's tests under the 2x rule, CUDA graphs, torch.compile."""

import pytest
import torch

import coda_cpp as coda
from coda_cpp import functional as CF
from functional_cases import ALL, CASES, D, N, compare, doubled, grad_like, results, rms
from gpu_common import capture

DEVICE = "cuda"
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ALL)
def test_values_and_gradients(generator, name, dtype):
    case, dtype = ALL[name], DTYPES[dtype]
    t, i = case.draw((2, 150), generator, dtype, DEVICE)
    compare(case, t, i, grad_like(case, t, i, generator).to(dtype), dtype)


@pytest.mark.parametrize("lead", [(0,), (1,), (7,), (), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_any_leading_dimensions(generator, name, lead):
    case = CASES[name]
    t, i = case.draw(lead, generator, torch.bfloat16, DEVICE)
    grad = grad_like(case, t, i, generator)
    exact = results(case.theirs, doubled(t), i, grad.double())
    for key, value in results(case.ours, t, i, grad).items():  # too few numbers for the 2x rule
        assert value.shape == exact[key].shape, key
        if exact[key].isfinite().all():
            assert rms(value.double() - exact[key]) <= 0.05 * rms(exact[key]) + 1e-3, key


@pytest.mark.parametrize("name", CASES)
def test_strided_inputs_and_gradients(generator, name):
    case = CASES[name]
    t, i = case.draw((3, 50), generator, torch.bfloat16, DEVICE)
    grad = grad_like(case, t, i, generator)
    halved = lambda tensor: torch.stack([tensor, tensor], -1).flatten(-2)[..., ::2]  # noqa: E731
    strided = {key: halved(tensor.detach()).requires_grad_() for key, tensor in t.items()}
    expected = results(case.ours, t, i, grad)
    got = results(case.ours, strided, i, halved(grad) if grad.dim() else grad)
    for key, value in expected.items():
        assert rms(got[key].double() - value.double()) <= 0.01 * rms(value) + 1e-4, key
    case.ours(t, i).sum().backward()  # a gradient of stride 0


@pytest.mark.parametrize("name", ALL)
def test_a_graph_of_forward_and_backward_replays_on_new_contents(generator, name):
    case = ALL[name]
    t, i = case.draw((4, 64), generator, torch.bfloat16, DEVICE)
    grad = grad_like(case, t, i, generator)
    graph, captured = capture(lambda: results(case.ours, t, i, grad), warm_ups=2)
    with torch.no_grad():
        t["x"].copy_(torch.randn(t["x"].shape, generator=generator))
    graph.replay()
    torch.cuda.synchronize()
    for key, value in results(case.ours, t, i, grad).items():
        assert torch.equal(captured[key], value), key


@pytest.mark.parametrize("name", ALL)
def test_compiled_is_eager(generator, name):
    case = ALL[name]
    t, i = case.draw((3, 50), generator, torch.bfloat16, DEVICE)
    grad = grad_like(case, t, i, generator)
    expected = results(case.ours, t, i, grad)
    got = results(torch.compile(case.ours, fullgraph=True, backend="aot_eager"), t, i, grad)
    assert all(torch.equal(got[key], value) for key, value in expected.items())
    torch._dynamo.reset()


def test_autocast_and_main_gradients(generator):
    x = torch.randn(70, D, generator=generator).to(DEVICE)
    w = torch.randn(N, D, generator=generator).to(DEVICE).requires_grad_()
    w.main_grad = torch.zeros(N, D, device=DEVICE)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        out = CF.linear(x, w)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    narrow = w.detach().bfloat16().requires_grad_()
    narrow.main_grad = w.main_grad
    for _ in range(2):
        CF.linear(x.bfloat16(), narrow, main_grad=True).sum().backward()
    assert narrow.grad is None
    torch.testing.assert_close(w.main_grad, 2 * w.grad, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_stacked_weight_has_one_main_gradient(generator, compiled):
    x = torch.randn(70, D, generator=generator).bfloat16().to(DEVICE)
    both = (torch.randn(2 * N, D, generator=generator) / 8).bfloat16().to(DEVICE).requires_grad_()
    both.main_grad = torch.zeros(2 * N, D, device=DEVICE)
    CF.linear_swiglu(x, both).sum().backward()
    work = torch.compile(CF.linear_swiglu, fullgraph=True, backend="aot_eager") if compiled else CF.linear_swiglu
    once, both.grad = both.grad.float(), None
    for _ in range(2):
        work(x, both, main_grad=True).sum().backward()
    torch._dynamo.reset()
    assert both.grad is None
    torch.testing.assert_close(both.main_grad, 2 * once, rtol=1e-2, atol=1e-2 * once.abs().max().item())


def test_a_loss_of_a_vocabulary_in_chunks(generator):
    """Logits of 128,000 columns; nothing waits for the GPU."""
    x = (torch.randn(3000, D, generator=generator) / 8).bfloat16().to(DEVICE).requires_grad_()
    w = torch.randn(128_000, D, generator=generator).bfloat16().to(DEVICE).requires_grad_()
    targets = torch.randint(0, 128_000, (3000,), generator=generator).to(DEVICE)
    CF.linear_cross_entropy(x, w, targets).backward()  # compiles
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss = CF.linear_cross_entropy(x, w, targets)
        loss.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    theirs = torch.nn.functional.cross_entropy(x.detach().float() @ w.detach().float().T, targets)
    assert abs(loss.item() - theirs.item()) <= 2e-3 * theirs.item()


def test_mixed_devices_are_named():
    with pytest.raises(coda.errors.ValueError, match="linear: argument 'weight' is on cpu, expected cuda:0, the device of 'x'"):
        CF.linear(torch.ones(3, 8, device=DEVICE).bfloat16(), torch.ones(4, 8).bfloat16())
