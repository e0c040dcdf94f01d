"""Every family of the epilogue library against its formula in numpy doubles."""

import numpy as np
import pytest
import torch

import coda_cpp as coda
from support import DTYPES, check_close, generator, to_double

M, K, D, HEAD = 13, 40, 192, 64  # rows, depth, width, head
EPS = 1e-5


def silu(x):
    return x / (1 + np.exp(-x))


def rope(z, angles, interleaved=False, width=HEAD, scale=1.0):
    """z (M, heads*HEAD) rotated by angles (M, width/2)."""
    heads = z.reshape(len(z), -1, HEAD).copy()
    half = width // 2
    first, second = (slice(0, width, 2), slice(1, width, 2)) if interleaved else (slice(0, half), slice(half, width))
    a, b = heads[..., first].copy(), heads[..., second].copy()
    cos, sin = scale * np.cos(angles)[:, None], scale * np.sin(angles)[:, None]
    heads[..., first], heads[..., second] = a * cos - b * sin, b * cos + a * sin
    return heads.reshape(z.shape)


class Inputs:
    """Random operands of one run, the stored values as doubles for the formula."""

    def __init__(self, dtype):
        rng = generator()
        draw = lambda *shape: rng.standard_normal(shape).astype(DTYPES[dtype])
        self.a, self.b, self.b2 = draw(M, K), draw(K, D), draw(K, D)
        self.tile, self.row, self.row2, self.head_row = draw(M, D), draw(D), draw(D), draw(HEAD)
        self.sum_sq = rng.uniform(50, 150, (M, 3)).astype(np.float32)
        self.positions = rng.integers(0, 500, M).astype(np.int32)
        self.frequencies = rng.uniform(0, 0.02, HEAD // 2).astype(np.float32)
        self.targets = rng.integers(0, D, M)
        self.targets[3] = -100
        self.acc, self.acc1 = (to_double(self.a) @ to_double(b) for b in (self.b, self.b2))
        self.rstd = 1 / np.sqrt(self.sum_sq.astype(np.float64).sum(1, keepdims=True) / D + EPS)

    def angles(self, width=HEAD, base=10000.0):
        return self.positions[:, None] * base ** (-2 * np.arange(width // 2) / width)

    def logits_expected(self, logits):
        lse = np.stack([np.logaddexp.reduce(part, -1) for part in np.split(logits, 3, axis=1)], 1)
        target = np.where(self.targets < 0, 0, logits[np.arange(M), np.maximum(self.targets, 0)])
        return {"lse": lse, "target": target}


E = coda.epilogues
NORM = {"count": D, "eps": EPS}


def head_norm(z, gamma, eps=1e-6):
    heads = z.reshape(M, -1, HEAD)
    return (heads / np.sqrt((heads**2).mean(-1, keepdims=True) + eps) * gamma).reshape(z.shape)


def residual_rms(i, gamma):
    x = i.acc + to_double(i.tile)
    return {"x": x, "h": x * gamma, "sum_sq": (x**2).reshape(M, 3, 64).sum(-1)}


# name: (program, operands, outputs expected), the last two functions of the inputs.
CASES = {
    "identity": (E.identity(), lambda i: {}, lambda i: {"out": i.acc}),
    "bias": (E.bias(), lambda i: {"bias": i.row}, lambda i: {"out": i.acc + to_double(i.row)}),
    "bias_silu": (E.bias("silu"), lambda i: {"bias": i.row}, lambda i: {"out": silu(i.acc + to_double(i.row))}),
    "scale": (E.scale(), lambda i: {"alpha": 0.375}, lambda i: {"out": 0.375 * i.acc}),
    "residual": (E.residual(), lambda i: {"residual": i.tile}, lambda i: {"out": i.acc + to_double(i.tile)}),
    "sigmoid": (E.sigmoid(), lambda i: {}, lambda i: {"out": 1 / (1 + np.exp(-i.acc))}),
    "residual_rms": (E.residual_rms(), lambda i: {"residual": i.tile, "gamma": i.row},
                     lambda i: residual_rms(i, to_double(i.row))),
    "residual_rms_1p": (E.residual_rms(weight="one_plus_gamma"), lambda i: {"residual": i.tile, "gamma": i.row},
                        lambda i: residual_rms(i, 1 + to_double(i.row))),
    "rms": (E.rms(**NORM, bias=True), lambda i: {"sum_sq": i.sum_sq, "bias": i.row},
            lambda i: {"out": i.acc * i.rstd + to_double(i.row)}),
    "gated": (E.gated(save_inputs=True), lambda i: {},
              lambda i: {"gate": i.acc, "up": i.acc1, "out": silu(i.acc) * i.acc1}),
    "rms_gated": (E.rms_gated("reglu", **NORM, bias=True),
                  lambda i: {"sum_sq": i.sum_sq, "gate_bias": i.row, "up_bias": i.row2},
                  lambda i: {"out": np.maximum(i.acc * i.rstd + to_double(i.row), 0)
                             * (i.acc1 * i.rstd + to_double(i.row2))}),
    "rope": (E.rope(head=HEAD), lambda i: {"positions": i.positions}, lambda i: {"out": rope(i.acc, i.angles())}),
    "rope_interleaved": (E.rope(head=HEAD, interleaved=True, bias=True),
                         lambda i: {"positions": i.positions, "bias": i.row},
                         lambda i: {"out": rope(i.acc + to_double(i.row), i.angles(), interleaved=True)}),
    "rope_partial": (E.rope(head=HEAD, width=32, base=500.0, scale=0.75), lambda i: {"positions": i.positions},
                     lambda i: {"out": rope(i.acc, i.angles(32, 500.0), width=32, scale=0.75)}),
    "rms_rope_frequency": (E.rms_rope(**NORM, head=HEAD, angles="frequency"),
                           lambda i: {"sum_sq": i.sum_sq, "positions": i.positions, "frequencies": i.frequencies},
                           lambda i: {"out": rope(i.acc * i.rstd, i.positions[:, None] * to_double(i.frequencies))}),
    "rope_table": (E.rope(head=HEAD, angles="table"),
                   lambda i: {"cos": np.cos(i.angles()), "sin": np.sin(i.angles())},
                   lambda i: {"out": rope(i.acc, i.angles())}),
    "qk_norm_rope": (E.qk_norm_rope(count=D, norm_eps=EPS, head=HEAD),
                     lambda i: {"sum_sq": i.sum_sq, "positions": i.positions, "gamma": i.head_row},
                     lambda i: {"out": rope(head_norm(i.acc * i.rstd, to_double(i.head_row)), i.angles())}),
    "lse": (E.lse(), lambda i: {"targets": i.targets}, lambda i: i.logits_expected(i.acc)),
    "rms_lse": (E.rms_lse(**NORM, store_logits=True), lambda i: {"sum_sq": i.sum_sq, "targets": i.targets},
                lambda i: {"logits": i.acc * i.rstd, **i.logits_expected(i.acc * i.rstd)}),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_family(name, dtype):
    program, operands_of, expected_of = CASES[name]
    inputs = Inputs(dtype)
    b = coda.pair(inputs.b, inputs.b2) if program.accumulators == 2 else inputs.b
    result = coda.gemm(inputs.a, b, program, **operands_of(inputs))
    expected = expected_of(inputs)
    results = {"out": result} if isinstance(result, np.ndarray) else result._asdict()
    assert list(results) == list(expected)
    for key, value in results.items():
        rounded = "f32" if value.dtype == np.float32 else dtype
        check_close(value, expected[key], rounded, slack=3e-5)  # rotations by angles of 500 in fp32


def test_activations_match_torch():
    rng = generator()
    z, eye, none = rng.standard_normal((50, 30)), np.eye(30), np.zeros(30)
    theirs = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "relu": torch.relu,
              "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"), "sigmoid": torch.sigmoid,
              "relu_squared": lambda x: torch.relu(x) ** 2, "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x)}
    assert sorted(theirs) == sorted(coda.activation_names())
    for name, function in theirs.items():
        got = coda.gemm(z, eye, E.bias(name), bias=none, backend="reference")
        np.testing.assert_allclose(got, function(torch.from_numpy(z)).numpy(), rtol=1e-9, atol=1e-12)


def test_library_is_a_dict_of_programs():
    programs = E.library()
    assert {"identity", "residual_rms", "swiglu", "lse"} <= set(programs)
    for program in programs.values():
        assert coda.Program.parse(program.text).text == program.text
