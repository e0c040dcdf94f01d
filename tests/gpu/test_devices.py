"""Two GPUs of one host: work goes to the device of its tensors, whichever is current."""

import pytest
import torch

import coda_cpp as coda

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def product(device):
    generator = torch.Generator().manual_seed(3)
    a, w, residual = (torch.randn(size, generator=generator).bfloat16().to(device) for size in ((300, 256), (264, 256), (300, 264)))
    return a, w.T, residual


@pytest.mark.parametrize("current", [0, 1])
def test_a_product_runs_where_its_tensors_are(current):
    results = []
    with torch.cuda.device(current):
        for device in ("cuda:0", "cuda:1"):
            a, w, residual = product(device)
            results.append(coda.gemm(a, w, "residual", residual=residual))
            assert results[-1].device == torch.device(device)
    assert torch.equal(results[0].cpu(), results[1].cpu())


def test_plans_and_graphs_of_both_devices_interleave():
    plans, graphs = [], []
    for device in ("cuda:0", "cuda:1"):
        with torch.cuda.device(device):
            a, w, residual = product(device)
            plans.append(coda.prepare(a, w, "residual", residual=residual))
            plans[-1]()
            graphs.append(torch.cuda.CUDAGraph())
            with torch.cuda.graph(graphs[-1], stream=torch.cuda.Stream(device)):  # torch's own is on the first GPU
                plans[-1]()
    expected = plans[0].outputs.cpu()
    for _ in range(3):
        for plan, graph in zip(plans, graphs):
            plan.outputs.fill_(float("nan"))
            graph.replay()
    for device, plan in zip(("cuda:0", "cuda:1"), plans):
        torch.cuda.synchronize(device)
        assert torch.equal(plan.outputs.cpu(), expected)


def test_operands_of_two_devices_are_refused():
    a, w, residual = product("cuda:0")
    with pytest.raises(coda.errors.ValueError) as raised:
        coda.gemm(a, w.to("cuda:1"))
    assert str(raised.value) == "gemm: B is on cuda:1, expected cuda:0, the device of A: copy it there"
    with pytest.raises(coda.errors.ValueError) as raised:
        coda.gemm(a, w, "residual", residual=residual.to("cuda:1"))
    assert str(raised.value) == "gemm: operand 'residual' is on cuda:1, expected cuda:0, the device of A: copy it there"
