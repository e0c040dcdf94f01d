"""@epilogue: what a Python function becomes, and what it says when it cannot be one."""

import cProfile
import dataclasses
import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest

import coda_cpp as coda


def test_the_traced_text_is_the_builders():
    @coda.epilogue
    def norm(acc, sum_sq: coda.Partials, gamma: coda.Row(period=64), mask: coda.Tile(dtype="bf16"), shift: coda.Col,
             eps: coda.Scalar):
        """Doc of the function."""
        rstd = coda.rsqrt(sum_sq / 576 + eps)
        z = 2 * (acc * rstd) - shift
        return {"h": coda.output(z * gamma, dtype="bf16"), "sum_sq_next": coda.reduce_row(z * z * mask, "sum", 64)}

    b = coda.Builder("norm")
    acc, sum_sq = b.acc(), b.load_partials("sum_sq").named("sum_sq")
    gamma, mask = b.load_row("gamma", period=64).named("gamma"), b.load_tile("mask", dtype="bf16").named("mask")
    shift, eps = b.load_col("shift").named("shift"), b.load_scalar("eps").named("eps")
    rstd = coda.rsqrt(sum_sq / 576 + eps).named("rstd")
    z = (2 * (acc * rstd) - shift).named("z")
    h = (z * gamma).named("h")
    following = coda.reduce_row(z * z * mask, "sum", 64).named("sum_sq_next")
    b.store("h", h, dtype="bf16")
    b.store("sum_sq_next", following)
    assert norm.text == b.build().text
    assert norm.__name__ == "norm" and norm.__doc__ == "Doc of the function."


def test_a_small_function_is_the_library_program():
    @coda.epilogue
    def bias(acc, bias: coda.Row):
        z = acc + bias
        return z

    assert bias.program == coda.epilogues.bias()


def test_golden_text():
    @coda.epilogue
    def bias_silu(acc, bias: coda.Row):
        z = acc + bias
        return z * coda.sigmoid(z)

    assert bias_silu.text == (
        "program bias_silu {\n  in bias: row\n  out out: tile\n\n  v0 = acc(0)\n  bias = load(bias)\n"
        "  z = add(v0, bias)\n  v3 = sigmoid(z)\n  out = mul(z, v3)\n  store(out, out)\n}\n")
    assert coda.Program.parse(bias_silu.text) == bias_silu.program
    assert pickle.loads(pickle.dumps(bias_silu.program)) == bias_silu.program


def test_it_is_traced_once():
    calls = []

    @coda.epilogue
    def counted(acc, *, alpha=2.0):
        calls.append(alpha)
        return alpha * acc

    a = np.ones((2, 2), np.float32)
    for _ in range(3):
        coda.gemm(a, a, counted)
        coda.gemm(a, a, counted.with_options(alpha=3.0))
    assert calls == [2.0, 3.0]
    np.testing.assert_array_equal(coda.gemm(a, a, counted.with_options(alpha=3.0)), np.full((2, 2), 6))


class Two(NamedTuple):
    low: object
    high: object


@dataclasses.dataclass
class TwoFields:
    low: object
    high: object


@pytest.mark.parametrize("make", [Two, TwoFields, lambda low, high: {"low": low, "high": high}])
def test_several_outputs(make):
    @coda.epilogue
    def parts(acc):
        return make(coda.min(acc, 3), coda.max(acc, 3.0))

    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = coda.gemm(a, np.eye(3, dtype=np.float32), parts)
    assert result._fields == ("low", "high")
    np.testing.assert_array_equal(result.low, np.minimum(a, 3))
    np.testing.assert_array_equal(result.high, np.maximum(a, 3))


def test_string_annotations():
    namespace = {"coda": coda}
    exec("from __future__ import annotations\ndef later(acc, bias: coda.Row):\n    return acc + bias\n", namespace)
    assert "in bias: row" in coda.epilogue(namespace["later"]).text


def test_two_accumulators():
    @coda.epilogue
    def gate(acc0, acc1):
        return coda.silu(acc0) * acc1

    assert gate.program.accumulators == 2


def run(function, *values):
    """An epilogue of numbers alone, at one element: each value is a Scalar operand."""
    program = coda.epilogue(function).program
    names = [operand.name for operand in program.operands if operand.role == "in"]
    exact = dict(zip(names, (np.float64(v).reshape(()) for v in values)))
    return coda.elementwise(program, shape=(1, 1), backend="reference", out=np.empty((1, 1)), **exact)[0, 0]


def test_operators_mix_with_numbers():
    def mixed(x: coda.Scalar):
        y = -(+x) + np.float32(3) * x / 4 - 5
        y = 2 / (1 - y) + abs(y) + x**2 + x**0.5 + x**-1 + x**-0.5
        return y + coda.col_index()

    y = -2.0 + 3 * 2.0 / 4 - 5
    assert math.isclose(run(mixed, 2.0), 2 / (1 - y) + abs(y) + 4 + 2**0.5 + 0.5 + 2**-0.5)


def test_comparisons_and_selection():
    def compared(x: coda.Scalar):
        digits = [x < 3, x <= 2, x > 2, x >= 2, x == 2, x != 2, 3 > x, coda.less(1, x), coda.greater_equal(x, 9)]
        number = coda.constant(0.0)
        for digit in digits:
            number = 2 * number + digit
        return coda.select(x == 2, number, coda.constant(-1)) + coda.col_index()

    assert run(compared, 2.0) == int("110110110", 2)
    assert run(compared, 5.0) == -1


def test_functions_of_the_op_table():
    def all_of_them(x: coda.Scalar):
        return (coda.exp(x) + coda.exp2(x) + coda.log(x) + coda.rcp(x) + coda.sqrt(x) + coda.rsqrt(x) + coda.square(x)
                + coda.tanh(x) + coda.erf(x) + coda.sin(x) + coda.cos(x) + coda.relu(x) + coda.sigmoid(x)
                + coda.clamp(x, -0.5, 0.5) + coda.clamp(x, x, 9) + coda.min(x, 1) + coda.max(1, x) + coda.col_index())

    x = 0.75
    expected = (math.exp(x) + 2**x + math.log(x) + 1 / x + x**0.5 + x**-0.5 + x * x + math.tanh(x) + math.erf(x)
                + math.sin(x) + math.cos(x) + x + 1 / (1 + math.exp(-x)) + 0.5 + x + x + 1)
    assert math.isclose(run(all_of_them, x), expected, rel_tol=1e-12)


def test_pairs_heads_and_rounding():
    @coda.epilogue
    def swapped(acc):
        first, second = coda.split(acc, coda.halves(8, 4))
        joined = coda.join(second, first, acc)
        return {"out": joined, "sums": coda.span_sum(acc, 8), "rounded": coda.round_to(acc / 3, "bf16")}

    a = np.arange(16, dtype=np.float32).reshape(1, 16)
    result = coda.gemm(a, np.eye(16, dtype=np.float32), swapped)
    np.testing.assert_array_equal(result.out, [[2, 3, 0, 1, 4, 5, 6, 7, 10, 11, 8, 9, 12, 13, 14, 15]])
    np.testing.assert_array_equal(result.sums, [[28.0] * 8 + [92.0] * 8])
    assert (result.rounded.view(np.uint32) & 0xFFFF == 0).all()


def test_names_survive_a_profiler():
    def helper(acc):
        doubled = acc + acc
        return doubled

    def named(acc):
        result = helper(acc)
        return result + 1

    plain = coda.epilogue(named).text
    profiler = cProfile.Profile()
    assert profiler.runcall(lambda: coda.epilogue(named).text) == plain
    assert "result = add" in plain


@pytest.mark.parametrize("kind, text, function", [
    (TypeError, "epilogue: a Value has no truth value, it stands for every element of a tensor: use "
                "coda_cpp.select(condition, a, b) instead of if, and, or, not, while",
     lambda acc: acc if acc > 0 else 0 * acc),
    (TypeError, "epilogue: a Value is no number, it stands for every element of a tensor: use coda_cpp.exp and the like "
                "instead of the math module", lambda acc: math.exp(acc)),
    (NotImplementedError, "pow: exponent 3, expected 2, 1, 0.5, -0.5 or -1: write exp(exponent * log(value)) for a "
                          "positive value", lambda acc: acc**3),
    (TypeError, "max: got numbers alone, expected at least one Value: use the math module for numbers known while tracing",
     lambda acc: acc + coda.max(1, 2)),
    (TypeError, "epilogue 'f': returned a NoneType, expected a Value, or several as a dict, NamedTuple or dataclass: an "
                "output needs a name", lambda acc: None),
    (TypeError, "epilogue 'f': returned a tuple, expected a Value, or several as a dict, NamedTuple or dataclass: an "
                "output needs a name", lambda acc: (acc, acc)),
    (TypeError, "epilogue 'f': output 'one' is a int, expected a Value: write coda_cpp.constant(number) for a number",
     lambda acc: {"one": 1}),
    (ValueError, "program 'f': nothing is stored, expected at least one store: a program acts only through its outputs",
     lambda acc: {}),
    (ValueError, "reduce_row: op is 'mean', expected one of 'sum', 'max', 'lse'",
     lambda acc: coda.reduce_row(acc, "mean", 64)),
])
def test_what_a_body_cannot_do(kind, text, function):
    function.__name__ = "f"
    with pytest.raises(kind) as caught:
        coda.epilogue(function).program
    assert str(caught.value) == text and isinstance(caught.value, coda.Error)


def no_shape(acc, bias):
    return acc + bias


def with_default(acc, bias: coda.Row = None):
    return acc + bias


def without_default(acc, *, alpha):
    return acc * alpha


def any_number(acc, *biases: coda.Row):
    return acc


def annotated_accumulator(acc: coda.Tile):
    return acc


@pytest.mark.parametrize("text, function", [
    ("epilogue 'no_shape': parameter 'bias' has no shape, expected one of coda_cpp.Tile, Row, Col, Scalar or Partials as "
     "its annotation: write bias: coda_cpp.Row", no_shape),
    ("epilogue 'with_default': parameter 'bias' has a default, expected none: an operand is a tensor; an option stands "
     "after *", with_default),
    ("epilogue 'without_default': parameter 'alpha' is an option without a default, expected one: give it the usual value",
     without_default),
    ("epilogue 'any_number': parameter 'biases' takes any number of arguments, expected one parameter for each operand",
     any_number),
    ("epilogue 'annotated_accumulator': parameter 'acc' is an accumulator, expected no annotation: give an operand "
     "another name", annotated_accumulator),
])
def test_what_a_signature_cannot_be(text, function):
    with pytest.raises(TypeError) as caught:
        coda.epilogue(function)
    assert str(caught.value) == text and isinstance(caught.value, coda.Error)


def test_misuse_of_an_epilogue():
    @coda.epilogue
    def plain(acc, *, alpha=1.0):
        return acc * alpha

    with pytest.raises(TypeError) as caught:
        plain(1.0)
    assert str(caught.value) == ("epilogue 'plain' is a program, not a function: run it with coda_cpp.gemm(a, b, plain, "
                                 "...), and share code between epilogues by a function that is not decorated")
    with pytest.raises(ValueError) as caught:
        plain.with_options(beta=2)
    assert str(caught.value) == ("epilogue 'plain': option 'beta' is none of its keyword-only parameters, expected "
                                 "'alpha'")
    with pytest.raises(ValueError) as caught:
        coda.row_index()
    assert str(caught.value) == ("row_index: no function is being traced, expected a call inside an @epilogue function: "
                                 "use Builder.row_index elsewhere")


def test_values_of_two_functions_do_not_mix():
    kept = []

    @coda.epilogue
    def first(acc):
        kept.append(acc)
        return acc

    @coda.epilogue
    def second(acc):
        return acc + kept[0]

    first.program
    with pytest.raises(ValueError, match="programs 'second' and 'first', expected values of one Builder"):
        second.program


def test_simplify_shortens():
    @coda.epilogue
    def long(acc):
        unused = coda.exp(acc)
        return acc * 1 + 0 * 3.0

    program = long.program.simplify()
    assert len(program.text) < len(long.text) and "exp" not in program.text
