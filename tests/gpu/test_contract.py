"""What docs/hopper.md promises of a call on a GPU, line by line."""

import os
import subprocess
import sys
import threading

import pytest
import torch

import coda_cpp as coda
from canvas import Canvas
from gpu_common import capture
from plans import prepare_candidates


def matrix(rows, cols, dtype=torch.bfloat16):
    return torch.randn(rows, cols, device="cuda").to(dtype)


def bits(tensor):
    return tensor.contiguous().view(torch.int16)


def heads_of_four():
    builder = coda.Builder("heads_of_four")
    builder.store("out", coda.span_sum(builder.acc(), 4))
    return builder.build()


def test_graph_replay_equals_eager_bit_for_bit():
    a, w, residual = matrix(500, 256), matrix(328, 256), matrix(500, 328)
    plan = coda.prepare(a, w.T, "residual", residual=residual)
    eager = plan().clone()
    graph, _ = capture(plan)
    for _ in range(3):
        plan.outputs.fill_(float("nan"))
        graph.replay()
        assert torch.equal(bits(plan.outputs), bits(eager))


def test_a_captured_call_follows_new_contents():
    a, w = matrix(130, 64), matrix(72, 64)
    coda.gemm(a, w.T)
    graph, out = capture(lambda: coda.gemm(a, w.T))
    a.copy_(matrix(130, 64))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(bits(out), bits(coda.gemm(a, w.T)))


def test_unaligned_operands_can_be_captured_with_a_workspace_and_without():
    a = Canvas(100, 64, torch.bfloat16, pad=3, offset=1).fill(matrix(100, 64))
    w = matrix(72, 64)
    plan = coda.prepare(a, w.T)
    assert plan.workspace_bytes >= 100 * 64 * 2
    eager = plan().clone()
    assert torch.equal(bits(eager), bits(coda.gemm(a.contiguous(), w.T)))
    workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")
    for given in (workspace, None):
        graph, _ = capture(lambda: plan(workspace=given))
        plan.outputs.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(bits(plan.outputs), bits(eager))
    with pytest.raises(coda.errors.ValueError, match=r"gemm: the workspace has 16 bytes, expected \d+: ask Plan::workspace_bytes"):
        plan(workspace=workspace[:16])


def test_a_kernel_that_would_have_to_be_compiled_during_a_capture_is_an_error():
    a, w = matrix(64, 64), matrix(64, 64)
    builder = coda.Builder("never_seen_before")
    builder.store("out", builder.acc() * 1.25 + 0.5)
    program, out = builder.build(), torch.empty(64, 64, dtype=torch.bfloat16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(coda.errors.DeviceError, match="is not loaded on cuda:0 and the stream is being captured"):
            coda.gemm(a, w.T, program, out=out)
        out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert (out == 0).all()


def test_work_goes_to_the_current_stream():
    """A stream that is captured runs nothing until the graph is replayed; any other would have run it at once."""
    a, w = matrix(64, 64), matrix(64, 64)
    plan = coda.prepare(a, w.T)
    expected = plan().clone()
    plan.outputs.fill_(0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        plan()
    torch.cuda.synchronize()
    assert not plan.outputs.any()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(bits(plan.outputs), bits(expected))


def test_a_row_does_not_depend_on_other_rows():
    a, w = matrix(300, 512), matrix(264, 512)
    other = matrix(300, 512) * 1e30
    other[::7] = float("nan")
    other[123] = a[123]
    plans, changed = prepare_candidates(a, w.T), prepare_candidates(other, w.T)
    for schedule, plan in plans.items():
        assert torch.equal(bits(changed[schedule]()[123]), bits(plan()[123])), schedule


def test_nan_and_infinity_stay_in_their_rows():
    a, w = matrix(200, 128), matrix(136, 128).abs() + 1
    a[17, 5], a[64, 0], a[199, 127] = float("nan"), float("inf"), float("-inf")
    out = coda.gemm(a, w.T)
    assert out[17].isnan().all() and (out[64] == float("inf")).all() and (out[199] == float("-inf")).all()
    rest = [row for row in range(200) if row not in (17, 64, 199)]
    assert out[rest].isfinite().all()


def test_outputs_may_overwrite_the_residual():
    a, w, residual = matrix(333, 128), matrix(264, 128), matrix(333, 264)
    expected = coda.gemm(a, w.T, "residual", residual=residual)
    held = residual.clone()
    coda.gemm(a, w.T, "residual", residual=held, out=held)
    assert torch.equal(bits(held), bits(expected))


@pytest.mark.parametrize("m, n, k", [(0, 64, 64), (64, 0, 64), (64, 64, 0), (0, 0, 0), (1, 1, 1), (1, 8, 0)])
def test_empty_extents(m, n, k):
    bias = torch.randn(n, device="cuda")
    out = coda.gemm(matrix(m, k), matrix(n, k).T, "bias", bias=bias)
    expected = (matrix(m, k) @ matrix(k, n)).float() * 0 + bias if k == 0 else None
    assert out.shape == (m, n)
    if expected is not None:
        assert torch.equal(out, expected.to(out.dtype))


def test_more_than_two_to_the_31_elements():
    m, n, k = 131_200, 16_392, 64  # 2.15e9 elements: the last rows lie beyond a signed 32-bit index
    a, w = matrix(m, k), matrix(n, k)
    out = coda.gemm(a, w.T)
    for first in (0, 65_000, 131_000):
        rows = slice(first, first + 200)
        expected = a[rows].double() @ w.double().T
        assert torch.allclose(out[rows].double(), expected, rtol=2**-8, atol=1e-3)


def test_threads_share_a_plan():
    a, w = matrix(512, 512), matrix(512, 512)
    plans = [coda.prepare(a, w.T) for _ in range(4)]
    expected = plans[0]().clone()
    torch.cuda.synchronize()

    def work(plan):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                plan()
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(plan,)) for plan in plans * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(bits(plan.outputs), bits(expected)) for plan in plans)


def test_tuning_records_a_choice_that_later_plans_take_and_touches_no_output():
    a, w = matrix(256, 256), matrix(512, 256)
    builder = coda.Builder("tuned_here")
    builder.store("out", builder.acc(), accumulate=True)
    program, out = builder.build(), torch.full((256, 512), 3.0, dtype=torch.bfloat16, device="cuda")
    told = []
    timings = coda.tune(a, w.T, program, rounds=6, out=out, progress=lambda *step: told.append(step))
    assert (out == 3).all()
    assert timings[0].ratio <= timings[-1].ratio and len({t.schedule for t in timings}) == len(timings)
    assert {stage for stage, _, _ in told} == {"compile", "first heat", "final heat"}
    assert coda.prepare(a, w.T, program, out=out).schedule == timings[0].schedule
    assert coda.prepare(a[:200], w.T, program, out=out[:200]).schedule == timings[0].schedule


def test_products_inside_tuning_are_tuned_once_those_of_blocks_too():
    x, norm = matrix(192, 448), coda.blocks.RmsNorm(torch.ones(448, device="cuda").bfloat16(), 1e-5)
    w, main = matrix(328, 448), torch.full((328, 448), 2.0, device="cuda")
    stream = coda.blocks.enter_norm(x, norm)
    expected = coda.blocks.norm_linear(stream, norm, w)
    coda.training.add_weight_gradient(expected, x, main)
    added, told = main.clone(), []
    main.fill_(2)
    with coda.tuning(rounds=6, progress=lambda *step: told.append(step)):
        got = coda.blocks.norm_linear(stream, norm, w)
        first = len(told)
        coda.blocks.norm_linear(stream, norm, w)
        assert 0 < first == len(told)
        coda.training.add_weight_gradient(got, x, main)
        assert len(told) > first
    torch.testing.assert_close(got, expected, rtol=2**-7, atol=2**-7 * expected.abs().max().item())
    torch.testing.assert_close(main, added, rtol=2**-7, atol=2**-7 * added.abs().max().item())
    tuned = len(told)
    coda.blocks.norm_linear(stream, norm, w[:320])
    with coda.tuning(progress=lambda *step: told.append(step)):
        coda.blocks.norm_linear(stream, norm, w)
    assert len(told) == tuned


def test_a_second_process_gives_the_same_bits(tmp_path):
    script = """
import sys, torch, coda_cpp as coda
torch.manual_seed(5)
a, w = torch.randn(300, 256).bfloat16().cuda(), torch.randn(512, 256).bfloat16().cuda()
if sys.argv[1] == "tune":
    coda.tune(a, w.T, rounds=6)
plan = coda.prepare(a, w.T)
print(plan.schedule, plan().view(torch.int16).long().mul(torch.arange(512, device="cuda")).sum().item())
"""
    environment = os.environ | {"CODA_CACHE_DIR": str(tmp_path / "cache")}
    said = [subprocess.run([sys.executable, "-c", script, step], env=environment, capture_output=True, text=True,
                           check=True).stdout for step in ("tune", "run", "run")]
    assert said[0] == said[1] == said[2] and "stages" in said[0]


def test_every_candidate_has_a_reason_and_fits():
    a, w = matrix(640, 256), matrix(512, 256)
    assert all(reason for _, reason in coda.candidates(a, w.T))
    for plan in prepare_candidates(a, w.T).values():
        plan()


@pytest.mark.parametrize("make, kind, text", [
    (lambda: coda.gemm(matrix(8, 8).float(), matrix(8, 8).float()), coda.errors.NotImplementedError,
     "gemm: no backend runs this on cuda:0: 'cuda': A and B are f32, and Hopper's tensor cores multiply f32 only after "
     "rounding it to 11 bits (tf32); convert them to bf16 or f16, or run on the CPU"),
    (lambda: coda.gemm(matrix(8, 8), matrix(8, 8).cpu()), coda.errors.ValueError,
     "gemm: B is on cpu, expected cuda:0, the device of A: copy it there"),
    (lambda: coda.gemm(matrix(8, 8), matrix(8, 8), "bias", bias=torch.zeros(8)), coda.errors.ValueError,
     "gemm: operand 'bias' is on cpu, expected cuda:0, the device of A: copy it there"),
    (lambda: coda.gemm(matrix(8, 8), matrix(8, 8), backend="fast"), coda.errors.NotImplementedError,
     "gemm: backend 'fast' cannot run this: the tensors are on cuda:0, where it does not run"),
    (lambda: coda.gemm(matrix(8, 8), matrix(8, 8), heads_of_four()), coda.errors.NotImplementedError,
     "gemm: no backend runs this on cuda:0: 'cuda': program 'heads_of_four' sums over heads of 4 columns, expected one "
     "width of at least 8"),
    (lambda: coda.prepare(matrix(8, 8), matrix(8, 8), schedule="128x256 cooperative, 6 stages, cluster 1x1, raster 8, "
                          "sub 64, buffers 2+2"), coda.errors.NotImplementedError,
     "gemm: schedule '128x256 cooperative, 6 stages, cluster 1x1, raster 8, sub 64, buffers 2+2' does not fit: it needs "
     "327776 bytes of shared memory, a block has 232448: take one of the candidates"),
], ids=["f32", "B on the CPU", "bias on the CPU", "backend", "program", "schedule"])
def test_refusals_have_their_text(make, kind, text):
    with pytest.raises(kind) as raised:
        make()
    assert str(raised.value) == text
