"""Tensors of every framework, dtype and layout enter and leave without a copy where none is needed."""

import ml_dtypes
import numpy as np
import pytest
import torch

import coda_cpp as coda
from support import DTYPES, TORCH, check_close, generator, to_double, to_torch

FRAMEWORKS = {"numpy": lambda array: array, "torch": to_torch}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_outputs_come_in_a_framework_and_dtype(framework, dtype):
    rng = generator()
    a, b = (rng.standard_normal(shape).astype(DTYPES[dtype]) for shape in [(5, 7), (7, 3)])
    wrap = FRAMEWORKS[framework]
    out = coda.gemm(wrap(a), wrap(b))
    expected_dtype = TORCH[dtype] if framework == "torch" else DTYPES[dtype]
    assert type(out) is (torch.Tensor if framework == "torch" else np.ndarray)
    assert out.dtype == expected_dtype
    check_close(out, to_double(a) @ to_double(b), dtype)


def test_frameworks_mix():
    rng = generator()
    a, b, bias = (rng.standard_normal(shape).astype(np.float32) for shape in [(4, 6), (6, 5), (5,)])
    out = coda.gemm(to_torch(a), b, "bias", bias=to_torch(bias).bfloat16())
    assert isinstance(out, torch.Tensor)
    check_close(out, to_double(a) @ to_double(b) + to_double(to_torch(bias).bfloat16()))


def layouts_of(array):
    """The same matrix in memory of every kind a view can have, by name."""
    rows, cols = array.shape
    padded = np.full((2 * rows, 3 * cols), np.nan, array.dtype)
    padded[::2, ::3] = array
    return {"contiguous": array.copy(), "transposed": np.ascontiguousarray(array.T).T, "strided": padded[::2, ::3],
            "reversed": array[::-1, ::-1].copy()[::-1, ::-1]}


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided", "reversed"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_of_numpy(dtype, layout):
    rng = generator()
    a, b, residual = (rng.integers(-8, 8, shape).astype(DTYPES[dtype]) for shape in [(6, 9), (9, 4), (6, 4)])
    exact = to_double(a) @ to_double(b) + to_double(residual)
    a, b, residual = (layouts_of(array)[layout] for array in (a, b, residual))
    out = layouts_of(np.full((6, 4), np.nan, np.float32))[layout]
    assert coda.gemm(a, b, "residual", residual=residual, out=out) is out
    np.testing.assert_array_equal(to_double(out), exact)


def test_layouts_of_torch():
    rng = generator()
    a = torch.from_numpy(rng.integers(-8, 8, (9, 12)).astype(np.float32)).T[::2, 1:]
    b = torch.from_numpy(rng.integers(-8, 8, (1, 5)).astype(np.float32)).expand(8, 5)
    out = torch.full((5, 12), float("nan")).T[::2]
    assert coda.gemm(a, b, out=out) is out
    assert torch.equal(out, a @ b)


def test_a_transposed_weight_is_not_copied():
    rng = generator()
    x, weight = (rng.integers(-8, 8, shape).astype(np.float32) for shape in [(3, 6), (4, 6)])
    np.testing.assert_array_equal(coda.gemm(x, weight.T), x @ weight.T)


def test_nothing_outside_an_output_is_touched():
    buffer = np.full((7, 9), 77, np.float32)
    coda.gemm(np.ones((3, 2), np.float32), np.ones((2, 4), np.float32), out=buffer[2:5, 3:7])
    assert (buffer[2:5, 3:7] == 2).all()
    buffer[2:5, 3:7] = 77
    assert (buffer == 77).all()


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("batch", [(2, 3), (1, 4), (2, 1, 3), (2, 0)])
def test_leading_dimensions_are_rows(framework, batch):
    rng, wrap = generator(), FRAMEWORKS[framework]
    a, b = (rng.integers(-8, 8, shape).astype(np.float32) for shape in [(*batch, 6), (6, 4)])
    residual, gamma = rng.integers(-8, 8, (*batch, 4)).astype(np.float32), np.ones(4, np.float32)
    out = coda.gemm(wrap(a), wrap(b), "residual_rms", residual=wrap(residual), gamma=wrap(gamma))
    np.testing.assert_array_equal(to_double(out.x), a @ b + residual)
    assert tuple(out.h.shape) == (*batch, 4) and tuple(out.sum_sq.shape) == (*batch, 1)
    np.testing.assert_array_equal(to_double(out.sum_sq)[..., 0], ((a @ b + residual) ** 2).sum(-1))


def test_leading_dimensions_that_lie_unevenly_are_copied():
    rng = generator()
    a = rng.integers(-8, 8, (4, 3, 6)).astype(np.float32)[:, ::-1].transpose(1, 0, 2)
    b = rng.integers(-8, 8, (6, 5)).astype(np.float32)
    np.testing.assert_array_equal(coda.gemm(a, b), a @ b)
    np.testing.assert_array_equal(to_double(coda.gemm(torch.from_numpy(a.copy()).transpose(0, 1), b)),
                                  a.transpose(1, 0, 2) @ b)


def test_batched_columns_and_outputs():
    rng = generator()
    a, b = (rng.integers(-8, 8, shape).astype(np.float32) for shape in [(2, 3, 6), (6, 5)])
    rows = rng.integers(-8, 8, (2, 3)).astype(np.float32)

    @coda.epilogue
    def shifted(acc, shift: coda.Col):
        return acc + shift

    out = np.full((2, 3, 5), np.nan, np.float32)
    assert coda.gemm(a, b, shifted, shift=rows, out=out) is out
    np.testing.assert_array_equal(out, a @ b + rows[..., None])


def test_scalars_may_be_numbers():
    a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    for alpha in (2, 2.0, np.float32(2), np.array(2.0, np.float32), np.array([2.0]), torch.tensor(2.0)):
        np.testing.assert_array_equal(coda.gemm(a, b, "scale", alpha=alpha), np.full((2, 2), 6))


def test_inputs_that_require_grad_are_recorded_where_grad_mode_is_on():
    x, weight = torch.ones(2, 3, requires_grad=True), torch.nn.Parameter(torch.ones(3, 2))
    assert coda.gemm(x, weight).requires_grad
    with torch.no_grad():
        out = coda.gemm(x, weight)
    assert not out.requires_grad and torch.equal(out, torch.full((2, 2), 3.0))


def test_a_lazy_minus_is_resolved():
    lazy = torch.view_as_complex(torch.ones(2, 3, 2)).conj().imag
    assert lazy.is_neg()
    assert torch.equal(coda.gemm(lazy, torch.ones(3, 2)), torch.full((2, 2), -3.0))


class OnlyDlpack:
    """What another framework's array looks like."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnlyInterface:
    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("wrapper", [OnlyDlpack, OnlyInterface])
def test_other_frameworks(wrapper):
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    out = coda.gemm(wrapper(a), wrapper(b))
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, a @ b)


def test_read_only_inputs():
    a = np.ones((2, 3), np.float32)
    a.setflags(write=False)
    np.testing.assert_array_equal(coda.gemm(a, a.T), np.full((2, 2), 3))


def test_doubles_go_to_the_reference():
    rng = generator()
    a, b = rng.standard_normal((4, 30)), rng.standard_normal((30, 5))
    out = coda.gemm(a, b, backend="reference")
    assert out.dtype == np.float64
    check_close(out, a @ b, "f64", slack=1e-14)


def test_results_outlive_the_call():
    """A result owns its memory: the rows of many are still right when all calls are over."""
    eye = torch.eye(8)
    results = [coda.gemm(torch.full((8, 8), float(i)), eye)[0] for i in range(100)]
    assert all((row == i).all() for i, row in enumerate(results))


@pytest.mark.parametrize("word", ["bf16", "bfloat16", torch.bfloat16, ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16),
                                  coda.bf16])
def test_spellings_of_a_dtype(word):
    builder = coda.Builder("spelled")
    builder.store("out", builder.acc(), dtype=word)
    assert builder.build().operands[0].dtype == coda.bf16
