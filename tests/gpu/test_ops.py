"""Every row of the op table on the GPU against the reference backend, over the row's domain, with NaN in each argument."""

import pytest
import torch

import coda_cpp as coda
from coda_cpp._core import op_table

M, N = 72, 128


def program_of(op, arity):
    """out = op(acc, y, z): the accumulator of a product with the identity is A, exactly."""
    operands = ["y", "z"][: arity - 1]
    lines = [f"  in {name}: tile" for name in operands] + ["  out out: tile f32", "", "  x = acc(0)"]
    lines += [f"  {name}_value = load({name})" for name in operands]
    arguments = ", ".join(["x", *(f"{name}_value" for name in operands)])
    return coda.parse_program("\n".join([f"program of_{op} {{", *lines, f"  r = {op}({arguments})", "  store(out, r)", "}", ""]))


@pytest.mark.parametrize("op, arity, domain", op_table(), ids=[row[0] for row in op_table()])
def test_op(op, arity, domain):
    draws = [(torch.rand(M, N) * (high - low) + low).bfloat16() for low, high in domain]
    for number, drawn in enumerate(draws):
        drawn[number, ::3] = float("nan")
        drawn[8 + number] = drawn[8 + number].round()  # equal arguments, kinks
    a, operands = draws[0], dict(zip(("y", "z"), draws[1:]))
    identity = torch.eye(N).bfloat16()
    a = torch.where(a.isnan().any(1, keepdim=True), a.nan_to_num(1.0), a)  # a NaN would fill its row of the product
    program = program_of(op, arity)
    expected = coda.gemm(a, identity, program, backend="reference", **operands).double()
    got = coda.gemm(a.cuda(), identity.cuda(), program, **{name: x.cuda() for name, x in operands.items()}).cpu().double()
    torch.testing.assert_close(got, expected, rtol=2e-6, atol=2e-6, equal_nan=True)


def test_rounding_and_numbers():
    builder = coda.Builder("numbers")
    value = coda.round_to(builder.acc() / 3.0, coda.f16) + builder.row_index() * 2.0 + builder.col_index()
    builder.store("out", value, dtype=coda.f32)
    program, a, identity = builder.build(), torch.randn(M, N).bfloat16(), torch.eye(N).bfloat16()
    expected = coda.gemm(a, identity, program, backend="reference")
    got = coda.gemm(a.cuda(), identity.cuda(), program).cpu()
    # A double and a float third may lie on two sides of a tie: one place of f16 just above 1.
    assert (got - expected).abs().max() < 2**-9
