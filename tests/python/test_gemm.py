"""gemm and elementwise: how calls are made and what comes back."""

import threading

import numpy as np
import pytest
import torch

import coda_cpp as coda
from support import BF16, check_close, generator, to_double


def integers(rng, *shape, dtype=np.float32):
    return rng.integers(-8, 8, shape).astype(dtype)


def test_integers_are_exact_in_every_backend():
    rng = generator()
    a, b, bias = integers(rng, 70, 130), integers(rng, 130, 90), integers(rng, 90)
    for backend in coda.backend_names():
        np.testing.assert_array_equal(coda.gemm(a, b, "bias", bias=bias, backend=backend), a @ b + bias)


def test_one_output_comes_alone_and_several_as_a_named_tuple():
    rng = generator()
    a, b, x = integers(rng, 5, 3), integers(rng, 3, 70), integers(rng, 5, 70)
    assert isinstance(coda.gemm(a, b), np.ndarray)
    result = coda.gemm(a, b, "residual_rms", residual=x, gamma=np.ones(70, BF16))
    assert result._fields == ("x", "h", "sum_sq")
    assert type(result).__name__ == "residual_rms_outputs"
    assert [t.shape for t in result] == [(5, 70), (5, 70), (5, 2)]


def test_dtypes_of_outputs():
    a, b = np.ones((2, 3), BF16), np.ones((3, 4), BF16)

    @coda.epilogue
    def several(acc):
        return {"as_a": acc, "declared": coda.output(acc, dtype="f32"), "sums": coda.reduce_row(acc, "sum", 64)}

    result = coda.gemm(a, b, several)
    assert [t.dtype for t in result] == [BF16, np.float32, np.float32]


def test_outputs_given_are_written_in_place_and_returned():
    rng = generator()
    a, b, x = integers(rng, 5, 3), integers(rng, 3, 70), integers(rng, 5, 70)
    h = torch.full((5, 70), float("nan"), dtype=torch.bfloat16)
    result = coda.gemm(a, b, "residual_rms", residual=x, gamma=np.ones(70), h=h)
    assert result.h is h and torch.equal(h, torch.from_numpy(a @ b + x).bfloat16())


def test_an_output_may_replace_an_input_tile():
    rng = generator()
    a, b, x = integers(rng, 5, 3), integers(rng, 3, 7), integers(rng, 5, 7)
    expected = a @ b + x
    assert coda.gemm(a, b, "residual", residual=x, out=x) is x
    np.testing.assert_array_equal(x, expected)


def test_accumulation():
    @coda.epilogue
    def add_to(acc):
        return {"total": coda.output(acc, accumulate=True)}

    rng = generator()
    a, b, total = integers(rng, 5, 3), integers(rng, 3, 7), integers(rng, 5, 7)
    expected = total + a @ b
    assert coda.gemm(a, b, add_to, total=total) is total
    np.testing.assert_array_equal(total, expected)


def test_none_is_not_given():
    a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(coda.gemm(a, b, out=None), a @ b)


def test_a_pair_gives_two_accumulators():
    rng = generator()
    x, gate, up = integers(rng, 6, 5), integers(rng, 7, 5), integers(rng, 7, 5)
    out = coda.gemm(x, coda.pair(gate.T, up.T), "reglu")
    np.testing.assert_array_equal(out, np.maximum(x @ gate.T, 0) * (x @ up.T))


def test_concat_of_weights_gives_a_result_for_each():
    rng = generator()
    x, q, k, v = integers(rng, 6, 5), integers(rng, 8, 5), integers(rng, 4, 5), integers(rng, 4, 5)
    weights = coda.concat(q.T, k.T, v.T)
    for got, weight in zip(coda.gemm(x, weights), (q, k, v), strict=True):
        np.testing.assert_array_equal(got, x @ weight.T)

    bias = integers(rng, 4)
    got_q, got_k, got_v = coda.gemm(
        x, weights, ["scale", coda.segment("bias", bias=bias), coda.segment("scale", alpha=3)], alpha=2)
    np.testing.assert_array_equal(got_q, 2 * (x @ q.T))
    np.testing.assert_array_equal(got_k, x @ k.T + bias)
    np.testing.assert_array_equal(got_v, 3 * (x @ v.T))


def test_concat_of_rows():
    rng = generator()
    first, second, b = integers(rng, 6, 5), integers(rng, 2, 5), integers(rng, 5, 3)
    got = coda.gemm(coda.concat(first, second), b)
    np.testing.assert_array_equal(got[0], first @ b)
    np.testing.assert_array_equal(got[1], second @ b)


def test_concat_k_sums_products():
    rng = generator()
    dg, du, wg, wu = integers(rng, 6, 5), integers(rng, 6, 3), integers(rng, 5, 4), integers(rng, 3, 4)
    got = coda.gemm(coda.concat_k(dg, du), coda.concat_k(wg, wu))
    np.testing.assert_array_equal(got, dg @ wg + du @ wu)


@pytest.mark.parametrize("m, k, n", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0), (1, 1, 1)])
def test_empty_and_single_extents(m, k, n):
    a, b, bias = np.ones((m, k), np.float32), np.ones((k, n), np.float32), np.ones(n, np.float32)
    for wrap in (np.asarray, torch.from_numpy):
        out = coda.gemm(wrap(a), wrap(b), "bias", bias=wrap(bias))
        np.testing.assert_array_equal(np.asarray(out), a @ b + bias)


def test_nan_stays_in_its_row():
    rng = generator()
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in [(20, 30), (30, 130)])
    a[7, 3] = np.nan
    residual, gamma = np.zeros((20, 130), np.float32), np.ones(130, np.float32)
    result = coda.gemm(a, b, "residual_rms", residual=residual, gamma=gamma)
    others = np.arange(20) != 7
    for tensor in result:
        assert np.isnan(tensor[7]).all() and np.isfinite(tensor[others]).all()


def test_elementwise_takes_its_extents_from_its_operands():
    rng = generator()
    x, gamma = integers(rng, 2, 3, 70), integers(rng, 70)
    result = coda.elementwise("rms_entry", x=x, gamma=gamma)
    np.testing.assert_array_equal(result.h, x * gamma)
    assert result.sum_sq.shape == (2, 3, 2)

    @coda.epilogue
    def outer(rows: coda.Col, columns: coda.Row):
        return rows * columns

    rows, columns = integers(rng, 5), torch.from_numpy(integers(rng, 7)).bfloat16()
    got = coda.elementwise(outer, rows=rows, columns=columns)
    assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, np.outer(rows, to_double(columns)))


def test_elementwise_with_a_shape_alone():
    @coda.epilogue
    def numbers():
        return 10 * coda.row_index() + coda.col_index()

    np.testing.assert_array_equal(coda.elementwise(numbers, shape=(3, 4)),
                                  10 * np.arange(3)[:, None] + np.arange(4))


def test_elementwise_of_half_width_tiles():
    pairing = coda.halves(8)

    @coda.epilogue
    def joined(first: coda.Tile(pairing=pairing), second: coda.Tile(pairing=pairing)):
        return coda.join(first, second)

    rng = generator()
    first, second = integers(rng, 3, 8), integers(rng, 3, 8)
    expected = np.concatenate([first.reshape(3, 2, 4), second.reshape(3, 2, 4)], -1).reshape(3, 16)
    np.testing.assert_array_equal(coda.elementwise(joined, first=first, second=second), expected)


def test_every_backend_agrees_on_every_program_of_the_library_that_needs_no_more_than_tiles():
    rng = generator()
    a, b, x = (rng.standard_normal(shape).astype(np.float32) for shape in [(33, 50), (50, 77), (33, 77)])
    for name in ("identity", "residual", "sigmoid", *(f"bias_{n}" for n in coda.activation_names())):
        operands = {"residual": {"residual": x}, "identity": {}, "sigmoid": {}}.get(name, {"bias": x[0]})
        exact = coda.gemm(a.astype(np.float64), b.astype(np.float64), name, backend="reference", **operands)
        check_close(coda.gemm(a, b, name, **operands), exact)


def test_two_threads_at_once():
    rng = generator()
    a, b, bias = integers(rng, 65, 100), integers(rng, 100, 130), integers(rng, 130)
    expected = a @ b + bias
    wrong = []

    def work():
        for _ in range(30):
            if not np.array_equal(coda.gemm(a, b, "bias", bias=bias), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_threads_run_while_a_product_does():
    """The interpreter is free while the core works: a counter in another thread goes on."""
    a, b = np.ones((600, 600)), np.ones((600, 600))
    counts, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counts[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    before = counts[0]
    coda.gemm(a, b, backend="reference")
    after = counts[0]
    done.set()
    counter.join()
    assert after - before > 1000


def test_threads_are_set_and_asked():
    before = coda.num_threads()
    try:
        coda.set_num_threads(1)
        assert coda.num_threads() == 1
    finally:
        coda.set_num_threads(before)


def test_tuning_leaves_the_cpu_alone():
    told, a = [], np.ones((3, 5), np.float32)
    with coda.tuning(progress=lambda *step: told.append(step)):
        assert (coda.gemm(a, a.T) == 5).all()
    assert not told
    with pytest.raises(coda.errors.ValueError, match=r"^tuning: got 0 rounds, expected 1 or more$"), coda.tuning(rounds=0):
        pass
