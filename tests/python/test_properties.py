"""Properties of gemm over random shapes, layouts and dtypes: integers, so every answer is exact."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import coda_cpp as coda
from support import BF16, to_double, to_torch

EXTENT = st.one_of(st.sampled_from([0, 1]), st.integers(0, 40), st.sampled_from([63, 64, 65, 130]))
DTYPE = st.sampled_from([np.dtype(np.float32), BF16, np.dtype(np.float16)])
BACKEND = st.sampled_from(coda.backend_names())


@st.composite
def matrices(draw, rows, cols, dtype):
    """A matrix of small integers: any strides, any framework."""
    seed, step, turned = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 3)), draw(st.booleans())
    rng = np.random.default_rng(seed)
    extents = (cols, rows * step) if turned else (rows, cols * step)
    whole = rng.integers(-3, 4, extents).astype(dtype)
    view = whole[:, ::step].T if turned else whole[:, ::step]
    if draw(st.booleans()):
        view = view[::-1]
    elif draw(st.booleans()):
        return to_torch(whole)[:, ::step].T if turned else to_torch(whole)[:, ::step]
    return view


@settings(max_examples=150)
@given(st.data(), EXTENT, EXTENT, EXTENT, DTYPE, BACKEND)
def test_a_product_with_bias_and_residual(data, m, k, n, dtype, backend):
    a, b = data.draw(matrices(m, k, dtype)), data.draw(matrices(k, n, dtype))
    residual, bias = data.draw(matrices(m, n, dtype)), data.draw(matrices(1, n, dtype))

    @coda.epilogue
    def shifted(acc, residual: coda.Tile, bias: coda.Row):
        return coda.output(acc + residual * bias, dtype="f32")

    out = coda.gemm(a, b, shifted, residual=residual, bias=bias, backend=backend)
    assert tuple(out.shape) == (m, n)
    expected = to_double(a) @ to_double(b) + to_double(residual) * to_double(bias)
    np.testing.assert_array_equal(to_double(out), expected)


@settings(max_examples=100)
@given(st.data(), EXTENT, EXTENT, EXTENT, st.sampled_from([64, 128]), BACKEND)
def test_partials_cover_what_exists(data, m, k, n, width, backend):
    a, b = data.draw(matrices(m, k, np.float32)), data.draw(matrices(k, n, np.float32))

    @coda.epilogue
    def reduced(acc):
        return {"by_row": coda.reduce_row(acc, "sum", width), "by_col": coda.reduce_col(acc, "max", width)}

    got = coda.gemm(a, b, reduced, backend=backend)
    product = to_double(a) @ to_double(b)
    assert tuple(got.by_row.shape) == (m, -(-n // width)) and tuple(got.by_col.shape) == (-(-m // width), n)
    for j in range(got.by_row.shape[1]):
        np.testing.assert_array_equal(to_double(got.by_row)[:, j], product[:, j * width:(j + 1) * width].sum(1))
    for i in range(got.by_col.shape[0]):
        np.testing.assert_array_equal(to_double(got.by_col)[i], product[i * width:(i + 1) * width].max(0))


@settings(max_examples=100)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_leading_dimensions(batch, k, n, torch_tensors):
    rng = np.random.default_rng(0)
    a, b, rows = (rng.integers(-3, 4, shape).astype(np.float32) for shape in [(*batch, k), (k, n), tuple(batch)])
    wrap = torch.from_numpy if torch_tensors else np.asarray

    @coda.epilogue
    def scaled(acc, rows: coda.Col):
        return acc * rows

    out = coda.gemm(wrap(a), wrap(b), scaled, rows=wrap(rows))
    assert tuple(out.shape) == (*batch, n)
    np.testing.assert_array_equal(to_double(out), (a @ b) * rows[..., None])


@settings(max_examples=50)
@given(st.integers(0, 3), st.lists(st.integers(0, 70), min_size=1, max_size=4), BACKEND)
def test_concat_is_the_product_of_the_joined(m, widths, backend):
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (m, 5)).astype(np.float32)
    parts = [rng.integers(-3, 4, (5, n)).astype(np.float32) for n in widths]
    got = coda.gemm(a, coda.concat(*parts), backend=backend)
    np.testing.assert_array_equal(np.concatenate(got, 1), a @ np.concatenate(parts, 1))
